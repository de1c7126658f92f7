"""Captions of an utterance, WebVTT or SubRip, by when its words are spoken.

Two formats of a few lines each, so that the client needs no package more.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from pathlib import Path

from talkahead_client.protocol import Spoken
from talkahead_client.reception import AudioChunk, Word

MAX_CHARACTERS = 42
"""Of a caption, but for one whose words nobody tells apart: a line on a television."""
_FEWEST_CHARACTERS = 20
"""Before a mark within a sentence ends a caption."""
_STOP, _MARK = re.compile(r"[.?!…。？！]\W*$"), re.compile(r"[,;:)\]—–]\W*$")
_SPACES = re.compile(r"\s+")
_TOUCHING = re.compile(r"\S*$")


@dataclass(frozen=True)
class _Part:
    """A word as it is written, with the marks and spaces around it, and when it begins."""

    start_s: float
    text: str
    is_whole: bool
    """Nobody knows where its words are: it is a caption of its own."""
    is_paused: bool
    """A pause comes after it: "Dr." ends with a full stop as well."""


@dataclass(frozen=True)
class _Caption:
    """Words that are shown together."""

    parts: tuple[_Part, ...]
    end_s: float

    @property
    def start_s(self) -> float:
        return self.parts[0].start_s


class Captions:
    """Collects the words of an utterance.

    Args:
        text: that is spoken.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._words: list[Word] = []
        self._pauses: set[int] = set()
        """Each by how many words come before it."""
        self._audio_s = 0.0

    def add(self, chunk: AudioChunk) -> None:
        for word in chunk.words:
            if word.kind is Spoken.PAUSE:
                self._pauses.add(len(self._words))
            else:
                self._words.append(word)
        self._audio_s += chunk.duration_s

    def write(self, path: Path) -> None:
        """In the format of the name's ending, one of `FORMATS`."""
        groups = list(_groups(self._parts()))
        ends_s = [*(group[0].start_s for group in groups[1:]), self._audio_s]
        captions = [_Caption(tuple(group), end_s) for group, end_s in zip(groups, ends_s, strict=False)]
        path.write_text(FORMATS[path.suffix](captions), encoding="utf-8")

    def _parts(self) -> Iterator[_Part]:
        """Every character of the text is in one: what touches a word on its left in that, else in the one
        before."""
        text, words = self._text, self._words
        begins = [0, *(_begin(text, before.char_end, after.char_start) for before, after in pairwise(words))]
        places = zip(words, pairwise([*begins, len(text)]), strict=False)
        for count, (word, (begin, beyond)) in enumerate(places, 1):
            written = _SPACES.sub(" ", text[begin:beyond])
            yield _Part(word.start_s, written, word.kind is Spoken.SEGMENT, count in self._pauses)


def _begin(text: str, end: int, start: int) -> int:
    """Of a word with the marks before it, after another word that ends."""
    touching = _TOUCHING.search(text[end:start])
    assert touching is not None, "the end of a string always matches"
    return start if touching.start() == 0 else end + touching.start()


def _groups(parts: Iterable[_Part]) -> Iterator[list[_Part]]:
    group: list[_Part] = []
    for part in parts:
        if group and _is_full(group, part):
            yield group
            group = []
        group.append(part)
    if group:
        yield group


def _is_full(group: Sequence[_Part], following: _Part) -> bool:
    written = "".join(part.text for part in group)
    is_ended = _STOP.search(written) or (len(written) >= _FEWEST_CHARACTERS and _MARK.search(written))
    is_long = len((written + following.text).strip()) > MAX_CHARACTERS
    return (group[-1].is_paused and bool(is_ended)) or is_long or group[-1].is_whole


def _web_vtt(captions: Sequence[_Caption]) -> str:
    """With the moment of each word, which players may show."""
    cues = []
    for caption in captions:
        first, *others = caption.parts
        moments = (f"<{_clock(part.start_s, '.')}>{escape(part.text, quote=False)}" for part in others)
        written = escape(first.text, quote=False) + "".join(moments)
        cues.append(f"{_clock(caption.start_s, '.')} --> {_clock(caption.end_s, '.')}\n{written.strip()}\n")
    return "\n".join(("WEBVTT\n", *cues))


def _sub_rip(captions: Sequence[_Caption]) -> str:
    return "\n".join(
        f"{number}\n{_clock(caption.start_s, ',')} --> {_clock(caption.end_s, ',')}\n"
        f"{''.join(part.text for part in caption.parts).strip()}\n"
        for number, caption in enumerate(captions, 1)
    )


def _clock(time_s: float, point: str) -> str:
    """hours:minutes:seconds, and milliseconds after the point."""
    seconds, ms = divmod(round(1e3 * time_s), 1_000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{seconds:02}{point}{ms:03}"


FORMATS: dict[str, Callable[[Sequence[_Caption]], str]] = {".vtt": _web_vtt, ".srt": _sub_rip}
"""By the ending of a file's name."""
