"""How long speech stops where the text has a mark of punctuation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from talkahead.text.frontend import PARAGRAPH_PAUSE_S, TextSegment

from instruments.measures.frames import Audio
from instruments.measures.phrases import align
from instruments.measures.silence import longest_silence_s
from instruments.recogniser import Recogniser

PARAGRAPH = "paragraph"
_WORD = re.compile(r"([a-z']+)([.,?!]?)")


@dataclass(frozen=True)
class Pause:
    """The silence at a mark: one of . , ? ! or a paragraph's end."""

    mark: str
    seconds: float


def marks(segments: Sequence[TextSegment]) -> Iterator[str]:
    """The mark behind each word of a text, or ''."""
    for segment in segments:
        *inner, last = (mark for _, mark in _WORD.findall(segment.words))
        yield from inner
        yield PARAGRAPH if segment.pause_s >= PARAGRAPH_PAUSE_S else last


def pauses(recogniser: Recogniser, segments: Sequence[TextSegment], audio: Audio) -> list[Pause]:
    """The silence at every mark but the last; none when the audio cannot be that text.

    Looked for between the middles of the two words around it.
    """
    words = align(recogniser, " ".join(segment.words for segment in segments), audio)
    middles = [(word.start + word.stop) // 2 for word in words]
    return [
        Pause(mark, longest_silence_s(audio, before, after))
        for mark, before, after in zip(marks(segments), middles, middles[1:], strict=False)
        if mark
    ]
