"""Text to phonemes with three levels of prosody."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from talkahead.errors import BadRequest
from talkahead.families.contracts import Segment, Units
from talkahead.text.frontend import MAX_SEGMENT_SYMBOLS, TextFrontend, TextSegment
from talkahead.types import Spoken

MAX_FRAMES_PER_SYMBOL = 5
"""Of a long segment; in the corpus, 4.5 for those of more than 110 symbols."""
SEGMENT_POSITIONS = MAX_SEGMENT_SYMBOLS * (1 + MAX_FRAMES_PER_SYMBOL) + 1
"""Symbols, the start row and frames of the longest segment."""
UNIT_COLUMNS = 4
NAME = "phonemic"
"""Of the family."""
REFERENCE_TEXT = "REFERENCE_TEXT"


class PhonemeFrontend:
    """A `Frontend`: units are the symbols of `text/symbols.py`, and three levels."""

    def __init__(self) -> None:
        self._text = TextFrontend()

    def segments(self, text: str, said: str | None = None, *, is_fixed: bool = True) -> Iterator[Segment]:
        before = np.zeros((0, UNIT_COLUMNS), np.int32) if said is None else self._said(said)
        return (_segment(one, before) for one in self._text.iter_segments(text))

    def units_of(self, said: str) -> int:
        return len(self._said(said))

    def _said(self, said: str) -> Units:
        try:
            return np.concatenate([segment.symbols for segment in self._text.segments(said)])
        except BadRequest as error:
            raise BadRequest(REFERENCE_TEXT, error.value, error.allowed) from error


def _segment(segment: TextSegment, before: Units) -> Segment:
    units = np.concatenate([before, segment.symbols])
    words = [
        (place.start, place.end, len(before) + place.symbol, Spoken.PAUSE if place.is_pause else Spoken.WORD)
        for place in segment.places
    ]
    return Segment(units, segment.char_start, segment.char_end, segment.pause_s, np.array(words, np.int32))
