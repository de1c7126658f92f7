"""What can be told of speech without a listener: one module a question, each on int16 audio at 16 kHz."""
