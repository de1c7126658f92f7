"""From when until when each word of an utterance is heard."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from talkahead_client import AudioChunk, Spoken, Word


@dataclass(frozen=True)
class TimedWord:
    """A word as it is written; or a part of the text, of a talker that does not tell where its words are."""

    text: str
    start_s: float
    end_s: float


class WordTimes:
    """The words of one utterance, each as soon as its end is known: where the next one begins, or a pause, or
    with the last chunk.

    Args:
        text: that is spoken.
        begins_s: when its speech begins; the words' times count from the same moment as this one.
    """

    def __init__(self, text: str, begins_s: float) -> None:
        self._text = text
        self._begins_s = begins_s
        self._arrived_s = 0.0
        self._begun: Word | None = None

    def add(self, chunk: AudioChunk) -> Iterator[TimedWord]:
        """Those that end in a chunk; it is to be read to its end."""
        for word in chunk.words:
            yield from self._end(word.start_s)
            if word.kind is not Spoken.PAUSE:
                self._begun = word
        self._arrived_s += chunk.duration_s
        if chunk.is_last:
            yield from self._end(self._arrived_s)

    def _end(self, end_s: float) -> Iterator[TimedWord]:
        word, self._begun = self._begun, None
        if word is not None:
            written = self._text[word.char_start : word.char_end]
            yield TimedWord(written, self._begins_s + word.start_s, self._begins_s + end_s)
