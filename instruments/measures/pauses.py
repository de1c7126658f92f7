"""How long speech stops where the text has a mark of punctuation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rapidfuzz.distance import Levenshtein
from talkahead.text.frontend import PARAGRAPH_PAUSE_S, TextSegment

from instruments.measures.ear import Ear
from instruments.measures.silence import longest_silence_s
from instruments.recording import Recording

PARAGRAPH = "paragraph"
_WORD = re.compile(r"([a-z']+)([.,?!]?)")


@dataclass(frozen=True)
class Pause:
    """The silence at a mark: one of . , ? ! or a paragraph's end."""

    mark: str
    seconds: float


def marks(segments: Sequence[TextSegment]) -> Iterator[str]:
    """The mark after each word of a text, or ''."""
    for segment in segments:
        *inner, last = (mark for _, mark in _WORD.findall(segment.words))
        yield from inner
        yield PARAGRAPH if segment.pause_s >= PARAGRAPH_PAUSE_S else last


def pauses(ear: Ear, segments: Sequence[TextSegment], recording: Recording) -> list[Pause]:
    """The silence at the marks but the last, looked for between the middles of the nearest words on either
    side that were heard; none at a mark between which and another no word was heard."""
    found = list(marks(segments))
    middles = _middles(
        ear, [word for segment in segments for word, _ in _WORD.findall(segment.words)], recording
    )
    at_marks = []
    for before, after in pairwise(sorted(middles)):
        between = [mark for mark in found[before:after] if mark]
        if len(between) == 1:
            at_marks.append(Pause(between[0], longest_silence_s(recording, middles[before], middles[after])))
    return at_marks


def _middles(ear: Ear, asked: Sequence[str], recording: Recording) -> dict[int, float]:
    """When each word that was heard was said, by its place in the text."""
    heard = ear.follow(recording)
    blocks = Levenshtein.editops(asked, [word.word for word in heard]).as_matching_blocks()
    return {
        block.a + place: heard[block.b + place].middle_s for block in blocks for place in range(block.size)
    }
