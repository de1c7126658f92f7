"""What a segment is written in: phonemes and pauses by number, and the numbers of prosody levels.

The order is part of every trained artifact: an index never changes its meaning, reserved ones are there to
grow into.
"""

from __future__ import annotations

PADDING = "_"
NUM_LEVELS = 8
"""Size of each prosody column's alphabet: levels are 0..7."""

COMMA, PERIOD, QUESTION, EXCLAMATION = ",", ".", "?", "!"
PAUSES: tuple[str, ...] = (COMMA, PERIOD, QUESTION, EXCLAMATION, ";", ":", "-", "...")
"""One symbol per class of punctuation. The rule frontend writes the first four; the others wait for a teacher
that speaks them differently."""

VOWELS: tuple[str, ...] = (
    "AA", "AE", "AH", "AO", "AW", "AY", "EH", "ER", "EY", "IH", "IY", "OW", "OY", "UH", "UW",
)  # fmt: skip
CONSONANTS: tuple[str, ...] = (
    "B", "CH", "D", "DH", "F", "G", "HH", "JH", "K", "L", "M", "N", "NG", "P", "R", "S", "SH", "T", "TH",
    "V", "W", "Y", "Z", "ZH",
)  # fmt: skip
STRESSES: tuple[str, ...] = ("0", "1", "2")
"""CMU's digits: unstressed, primary, secondary. AH0 is the schwa (flite's "ax")."""

_RESERVED = tuple(f"<reserved{number}>" for number in range(2))

SYMBOLS: tuple[str, ...] = (
    PADDING,
    *PAUSES,
    *CONSONANTS,
    *(vowel + stress for vowel in VOWELS for stress in STRESSES),
    *_RESERVED,
)
"""Index = id; 0 is padding."""

NUM_SYMBOLS = len(SYMBOLS)
SYMBOL_IDS: dict[str, int] = {symbol: index for index, symbol in enumerate(SYMBOLS)}
PAUSE_IDS: frozenset[int] = frozenset(SYMBOL_IDS[pause] for pause in PAUSES)
