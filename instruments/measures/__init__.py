"""What can be told of speech without a listener: one module a question, each on recordings of any rate."""
