"""NeuTTS: a language model that draws one code a frame, spoken by NeuCodec at 24 kHz."""
