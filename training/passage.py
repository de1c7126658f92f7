"""How long the server stops inside a paragraph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from instruments.material import Paragraph
from instruments.measures.ear import Ear
from instruments.measures.pauses import Pause, pauses
from instruments.recording import Recording


@dataclass(frozen=True)
class Passage:
    """The silences of a paragraph."""

    text: str
    voice: str
    pauses: tuple[Pause, ...]


def passages(ear: Ear, texts: Sequence[Paragraph], recordings: Iterable[Recording]) -> Iterator[Passage]:
    """One for each paragraph and the server's recording of it."""
    for text, recording in zip(texts, recordings, strict=True):
        yield Passage(text.text, text.voice, tuple(pauses(ear, text.segments, recording)))
