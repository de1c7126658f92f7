"""What somebody hears who plays speech as it arrives: how far in its text they are at any moment."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from talkahead_client import AudioChunk, Spoken


@dataclass(frozen=True)
class Heard:
    """How far a listener is."""

    text: str
    """What was written, up to the end of the word that is being said."""
    word: str
    """That word; empty before the first one."""
    audio_s: float
    """That has been played, silence between clauses included."""


class Playing:
    """Speech of clauses, one after the other. All moments are of one clock, in seconds."""

    def __init__(self) -> None:
        self._text = ""
        self._clause_at = 0
        """Where what the server says of the clause begins in the text."""
        self._begun_s: list[float] = []
        self._words: list[tuple[int, int]] = []
        """Of each word when it begins to be heard, and its characters in the text."""
        self._audio_s = 0.0
        self._played_out_s: float | None = None

    @property
    def has_begun(self) -> bool:
        return self._played_out_s is not None

    def waited_s(self, now_s: float) -> float:
        """Since all of it had been heard; below zero while there is more to hear."""
        return 0.0 if self._played_out_s is None else now_s - self._played_out_s

    def begin(self, clause: str) -> None:
        """Its speech comes next. It is as it was written: the server has it without the spaces around it."""
        self._clause_at = len(self._text) + len(clause) - len(clause.lstrip())
        self._text += clause

    def play(self, chunk: AudioChunk, before_s: float, silence_s: float, now_s: float) -> None:
        """A chunk of the clause has come.

        Args:
            before_s: the length of the clause's speech before it.
            silence_s: to be heard before the chunk.
        """
        begins_s = max(self._played_out_s or now_s, now_s) + silence_s
        for word in chunk.words:
            if word.kind is not Spoken.PAUSE:
                self._begun_s.append(begins_s + word.start_s - before_s)
                self._words.append((self._clause_at + word.char_start, self._clause_at + word.char_end))
        self._audio_s += silence_s + chunk.duration_s
        self._played_out_s = begins_s + chunk.duration_s

    def heard(self, now_s: float) -> Heard:
        begun = bisect_right(self._begun_s, now_s)
        start, end = self._words[begun - 1] if begun else (0, 0)
        return Heard(self._text[:end], self._text[start:end], self._audio_s - max(0.0, -self.waited_s(now_s)))
