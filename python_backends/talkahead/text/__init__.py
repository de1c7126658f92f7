"""From a client's text to segments of phonemes with prosody levels."""

from talkahead.text.frontend import MAX_SEGMENT_SYMBOLS, TextFrontend, TextSegment
from talkahead.text.symbols import NUM_LEVELS, NUM_SYMBOLS, SYMBOLS

__all__ = ["MAX_SEGMENT_SYMBOLS", "NUM_LEVELS", "NUM_SYMBOLS", "SYMBOLS", "TextFrontend", "TextSegment"]
