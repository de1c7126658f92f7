"""Which characters of a clause are heard when, as ElevenLabs' interface tells it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import numpy as np
from talkahead_client import Word

Times = dict[str, list[str] | list[int]]


@dataclass(frozen=True)
class Alignment:
    """The characters of a clause, and where they begin and end in seconds, in order: each word and each mark
    begins where the server says, and the characters of one share its time evenly.

    Pipecat's service takes what was said from here, in words that a space ends, so there always is one at
    the end.
    """

    characters: tuple[str, ...]
    edges_s: tuple[float, ...]

    @classmethod
    def of(cls, clause: str, words: Sequence[Word], silence_s: float, speech_s: float) -> Self:
        """From the beginning of the clause, silence before it included.

        Args:
            clause: as it was written.
            words: of the clause without the spaces around it, in order.
            silence_s: before its speech.
            speech_s: the length of its speech.
        """
        characters = tuple(" " if character.isspace() else character for character in clause)
        before = len(clause) - len(clause.lstrip())
        begins_s = {before + word.char_start: silence_s + word.start_s for word in words}
        known_s = {0: silence_s, **begins_s, len(clause): silence_s + speech_s}
        edges_s = tuple(np.interp(range(len(clause) + 1), list(known_s), list(known_s.values())).tolist())
        if characters[-1] == " ":
            return cls(characters, edges_s)
        return cls((*characters, " "), (*edges_s, edges_s[-1]))

    @property
    def seconds(self) -> float:
        """Of the clause, silence before it included."""
        return self.edges_s[-1]

    def times(self, since_s: float = 0.0) -> Times:
        """As ElevenLabs has them, in milliseconds, of a clause that begins at a time."""
        times_ms = [round(1e3 * (since_s + edge_s)) for edge_s in self.edges_s]
        return {
            "chars": list(self.characters),
            "charStartTimesMs": times_ms[:-1],
            "charDurationsMs": [later - earlier for earlier, later in pairwise(times_ms)],
        }
