"""Phonemes with prosody in, one code of pitch and spectrum a frame: the family of the shipped voice."""
