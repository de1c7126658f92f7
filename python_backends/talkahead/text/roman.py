"""Roman numerals, where the word before shows that they are numbers."""

from __future__ import annotations

import re

from talkahead.text.number_words import Numbers
from talkahead.text.word_list import word_list

_RULERS = word_list(
    """Henry Louis Edward George William Charles James Richard Philip Elizabeth John Paul Pius Benedict
    Francis Frederick Leo Gregory Alexander Nicholas Napoleon Catherine Ramses Ivan Peter Christian
    Gustav Ferdinand Alfonso Otto Leopold Wilhelm Innocent Clement Urban Ptolemy Mary Carl Haakon
    Olaf Umberto Emmanuel Pope King Queen"""
)
"""Names whose numerals are ordinals."""
_COUNTED = word_list(
    """Chapter Part Act Scene Book Volume Section Article Phase Type Stage Class Level Appendix Title War
    Bowl Figure Table Series Mark Grade Game Episode Season Unit Group Book Canto Psalm Olympiad"""
)
"""Things whose numerals are counts, even of one letter."""
_NUMERAL = re.compile(r"(?=[IVX])(X{0,3})(IX|IV|V?I{0,3})")
_VALUES = {"I": 1, "V": 5, "X": 10}


class RomanNumerals:
    """Reads numerals up to 39."""

    def __init__(self, numbers: Numbers) -> None:
        self._numbers = numbers

    def read(self, written: str, before: str) -> list[str]:
        """Words of a numeral after the word `before`; none if it is no numeral there."""
        if not before[:1].isupper() or not _NUMERAL.fullmatch(written):
            return []
        if before in _RULERS and written != "I":
            return ["the", *self._numbers.ordinal(str(_value(written)))]
        if before in _COUNTED or len(written) > 1:
            return self._numbers.cardinal(str(_value(written)))
        return []


def _value(numeral: str) -> int:
    values = [_VALUES[letter] for letter in numeral]
    following = [*values[1:], 0]
    return sum(-value if value < after else value for value, after in zip(values, following, strict=True))
