"""Llasa: a Llama that draws one code a frame, spoken by XCodec2 at 16 kHz."""
