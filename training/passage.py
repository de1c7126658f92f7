"""How long the server stops inside a paragraph, beside flite speaking it sentence by sentence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from instruments.material import Paragraph
from instruments.measures.frames import Audio
from instruments.measures.pauses import Pause, pauses
from instruments.recogniser import Recogniser
from instruments.teacher import Teacher

_UNTRIMMED = (60.0, 60.0)


@dataclass(frozen=True)
class Passage:
    """The silences of a paragraph, as served and as flite makes them."""

    text: str
    voice: str
    server: tuple[Pause, ...]
    flite: tuple[Pause, ...]


def passages(
    recogniser: Recogniser, texts: Sequence[Paragraph], audios: Iterable[Audio]
) -> Iterator[Passage]:
    """One for each paragraph and the server's audio of it."""
    flite = Teacher(edge_s=_UNTRIMMED)
    for text, audio in zip(texts, audios, strict=True):
        taught = np.concatenate([flite.speak(one.words, text.voice).audio for one in text.segments])
        served, wanted = (tuple(pauses(recogniser, text.segments, sound)) for sound in (audio, taught))
        yield Passage(text.text, text.voice, served, wanted)
