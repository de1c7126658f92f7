"""Three prosody levels beside the phonemes: by rules, behind a protocol for a learned predictor.

shapes: T = symbols of a segment
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol

import numpy as np
import numpy.typing as npt

from talkahead.text.symbols import COMMA, EXCLAMATION, PERIOD, QUESTION
from talkahead.text.word_list import FUNCTION_WORDS, OBJECT_PRONOUNS

FIRST, LAST, BOTH = 1, 2, 3
"""Where a symbol stands in its prosodic word or phonological phrase; 0 = inside."""
INTONATION: dict[str, int] = {PERIOD: 2, QUESTION: 3, EXCLAMATION: 4, COMMA: 5}
"""Level of the symbol that ends an intonational phrase, by its pause; its first symbol has FIRST."""

_MAX_WORDS = 4
"""Of a prosodic word."""


@dataclass(frozen=True)
class SpokenWord:
    """A word or a pause with its symbols."""

    text: str
    symbols: tuple[int, ...]
    is_pause: bool


class ProsodyPredictor(Protocol):
    """Assigns prosody levels to the symbols of a segment."""

    def predict(self, words: Sequence[SpokenWord]) -> npt.NDArray[np.int32]:
        """Levels [T, 3], each 0..7: prosodic word, phonological phrase, intonational phrase.

        T is the number of symbols of all words together; the last word is a pause.
        """
        ...


@dataclass(frozen=True)
class _Unit:
    """A prosodic word or phonological phrase: words `begin` to `end`, exclusive."""

    begin: int
    end: int
    is_opener: bool
    """Begins with a function word, so a new phrase may begin here."""


class RuleProsody:
    """Function words lean on the content word after them; phrases run from function to content words."""

    def predict(self, words: Sequence[SpokenWord]) -> npt.NDArray[np.int32]:
        starts = [0, *accumulate(len(word.symbols) for word in words)]
        levels = [[0, 0, 0] for _ in range(starts[-1])]
        prosodic_words = _prosodic_words(words)
        for column, units in enumerate((prosodic_words, _phrases(prosodic_words))):
            for unit in units:
                levels[starts[unit.begin]][column] += FIRST
                levels[starts[unit.end] - 1][column] += LAST
        _mark_intonation(words, starts, levels)
        return np.array(levels, np.int32)


def _mark_intonation(words: Sequence[SpokenWord], starts: Sequence[int], levels: list[list[int]]) -> None:
    opens = True
    for index, word in enumerate(words):
        if opens:
            levels[starts[index]][2] = FIRST
        if word.is_pause:
            levels[starts[index + 1] - 1][2] = INTONATION[word.text]
        opens = word.is_pause


def _prosodic_words(words: Sequence[SpokenWord]) -> list[_Unit]:
    """Content words, each with the function words before it and an object pronoun after it."""
    units: list[_Unit] = []
    begin = 0
    for index, word in enumerate(words):
        if begin < index and (word.is_pause or _begins_prosodic_word(words, begin, index)):
            units.append(_Unit(begin, index, words[begin].text in FUNCTION_WORDS))
            begin = index
        if word.is_pause:
            begin = index + 1
    return units


def _begins_prosodic_word(words: Sequence[SpokenWord], begin: int, index: int) -> bool:
    """Whether words[index] does not belong to the prosodic word that began at `begin`."""
    if index - begin >= _MAX_WORDS:
        return True
    has_content = any(word.text not in FUNCTION_WORDS for word in words[begin:index])
    leans_back = words[index].text in OBJECT_PRONOUNS and words[index - 1].text not in OBJECT_PRONOUNS
    return has_content and not leans_back


def _phrases(prosodic_words: Sequence[_Unit]) -> list[_Unit]:
    """Prosodic words up to the next one that opens with a function word; none crosses a pause."""
    phrases: list[_Unit] = []
    for unit in prosodic_words:
        joins = phrases and phrases[-1].end == unit.begin and not unit.is_opener
        begin = phrases.pop().begin if joins else unit.begin
        phrases.append(_Unit(begin, unit.end, unit.is_opener))
    return phrases
