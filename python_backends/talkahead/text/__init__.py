"""From a client's text to segments of phonemes with prosody levels."""

from talkahead.text.admission import MAX_CHARACTERS, decode_text
from talkahead.text.frontend import MAX_SEGMENT_SYMBOLS, TextFrontend, TextSegment
from talkahead.text.prosody import ProsodyPredictor, SpokenWord
from talkahead.text.symbols import NUM_LEVELS, NUM_SYMBOLS, SYMBOLS

__all__ = [
    "MAX_CHARACTERS",
    "MAX_SEGMENT_SYMBOLS",
    "NUM_LEVELS",
    "NUM_SYMBOLS",
    "SYMBOLS",
    "ProsodyPredictor",
    "SpokenWord",
    "TextFrontend",
    "TextSegment",
    "decode_text",
]
