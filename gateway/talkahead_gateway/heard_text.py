"""How far in a text somebody is who hears it, at any moment."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from talkahead_client import Spoken, Word


@dataclass(frozen=True)
class Heard:
    """How far."""

    text: str
    """What was written, up to the end of the word that is being said."""
    word: str
    """That word; empty before the first one."""


class HeardText:
    """Clauses one after the other, and the moments from which their words are heard."""

    def __init__(self) -> None:
        self._text = ""
        self._clause_at = 0
        """Where what the server says of the clause begins in the text."""
        self._begun_s: list[float] = []
        self._places: list[tuple[int, int]] = []
        """Of each word when it is heard, and its characters in the text."""

    def begin(self, clause: str) -> None:
        """Its words come next. It is as it was written: the server has it without the spaces around it."""
        self._clause_at = len(self._text) + len(clause) - len(clause.lstrip())
        self._text += clause

    def add(self, words: Iterable[Word], clause_begins_s: float) -> None:
        """Of the clause, whose speech is heard from this moment on."""
        for word in words:
            if word.kind is not Spoken.PAUSE:
                self._begun_s.append(clause_begins_s + word.start_s)
                self._places.append((self._clause_at + word.char_start, self._clause_at + word.char_end))

    def at(self, moment_s: float) -> Heard:
        begun = bisect_right(self._begun_s, moment_s)
        start, end = self._places[begun - 1] if begun else (0, 0)
        return Heard(self._text[:end], self._text[start:end])
