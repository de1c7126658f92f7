"""Word errors: edits between the words that were asked for and those that were heard.

Both sides become words alike: lower case, no punctuation but apostrophes within words, titles and units
written out, spelling American, numbers as figures (Whisper's own rules for English: "five hundred and forty
two" and "542" are "542", "five dollars" is "$5"), figures side by side joined ("5-4-2" and "five four two"
are "542", "7:30" is "730").
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Self

from rapidfuzz.distance import Levenshtein
from transformers.models.whisper.english_normalizer import EnglishNumberNormalizer

_OTHERWISE_WRITTEN = {
    "mr": "mister", "mrs": "missus", "dr": "doctor", "grey": "gray", "colour": "color",
    "cm": "centimeters", "mm": "millimeters", "km": "kilometers", "kg": "kilograms",
}  # fmt: skip
_OTHER = re.compile(r"[^a-z0-9'$%.]+")
_LOOSE = re.compile(r"(?<!\d)\.|\.(?!\d)|(?<![a-z])'|'(?![a-z])")
_BETWEEN_FIGURES = re.compile(r"(?<=\d)[ .]+(?=\d)")


@dataclass(frozen=True)
class WordErrors:
    """Edits between what was asked and what was heard, and the number of words asked."""

    edits: int
    words: int
    heard: str

    @classmethod
    def between(cls, asked: str, heard: str) -> Self:
        wanted = words_of(asked)
        return cls(Levenshtein.distance(wanted, words_of(heard)), len(wanted), heard)


def word_error_percent(errors: Iterable[WordErrors]) -> float:
    """Edits over words asked, all utterances together."""
    counted = list(errors)
    return 100 * sum(one.edits for one in counted) / sum(one.words for one in counted)


def words_of(text: str) -> list[str]:
    """A text's words as they are compared."""
    # The o of o'clock is no figure, though Whisper's rules read it as one.
    plain = text.lower().replace("’", "'").replace("o'clock", "oclock")
    plain = re.sub(r"(?<=\d),(?=\d)", "", plain)
    plain = _LOOSE.sub(" ", _OTHER.sub(" ", plain))
    written_out = " ".join(_OTHERWISE_WRITTEN.get(word, word) for word in plain.split())
    return _BETWEEN_FIGURES.sub("", str(_number_rules()(written_out))).split()


@cache
def _number_rules() -> EnglishNumberNormalizer:
    return EnglishNumberNormalizer()  # type: ignore[no-untyped-call]
