"""Orpheus: a Llama that draws seven codes a frame, spoken by SNAC at 24 kHz."""
