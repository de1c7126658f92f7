"""Roman numerals, where the word before shows that they are numbers."""

from __future__ import annotations

import re

from talkahead.text.abbreviations import ABBREVIATIONS, Stop
from talkahead.text.neighbours import Match, text_before, word_before
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
_CENTURY = word_list("century centuries Century")
_SMALL = re.compile(r"(?=[IVX])X{0,3}(?:IX|IV|V?I{0,3})")
_LARGE = re.compile(r"(?=\w{2})M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})")
_PAGES = word_list("page pages")
_ON_PAGES = re.compile(r"(?=[ivxl]{2})(?:xl|l?x{0,3})(?:ix|iv|v?i{0,3})")
"""What numbers the pages of prefaces. One letter alone is a letter, or who speaks: "on this page i wrote"."""
_LETTERS = re.compile(r"[ivxl]+", re.IGNORECASE)
"""What alone can be such a numeral: most words are not, and nobody looks before them."""
_ABBREVIATED = re.compile(r"\b([^\W\d_]+)\.\s?$")
_EVEN_OF_ONE_LETTER = word_list("Vol vol Ch Fig")
"""Abbreviations after which a capital is a number, and not who speaks ("No. I was there")."""
_LONGEST = 8
"""Characters of an abbreviation with its full stop and a space."""


def is_numbered(abbreviated: str, numeral: str) -> bool:
    """Whether a word is a Roman numeral, in letters of one size, after an abbreviation and its full stop."""
    if numeral in "IVX" and len(numeral) == 1:
        return abbreviated in _EVEN_OF_ONE_LETTER
    is_even = numeral.islower() or numeral.isupper()
    return is_even and _ON_PAGES.fullmatch(numeral.lower()) is not None


_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}


class RomanNumerals:
    """Reads numerals beside the words that ask for them: up to 39 after any capitalised word, and up to 89
    after "page" and what is abbreviated before a number."""

    def __init__(self, numbers: Numbers) -> None:
        self._numbers = numbers

    def page(self, written: str, match: Match) -> list[str]:
        """Words of a numeral after "page", "Vol." and the like; none if it is no such numeral."""
        if not _LETTERS.fullmatch(written):
            return []
        abbreviated = _ABBREVIATED.search(text_before(match, _LONGEST))
        if abbreviated and (found := ABBREVIATIONS.get(abbreviated[1])):
            is_numeral = found.stop is Stop.BEFORE_NUMBER and is_numbered(abbreviated[1], written)
        else:
            is_numeral = (
                word_before(match).lower() in _PAGES and _ON_PAGES.fullmatch(written.lower()) is not None
            )
        return self._numbers.cardinal(str(_value(written.upper()))) if is_numeral else []

    def read(self, written: str, before: str, after: str) -> list[str]:
        """Words of a numeral between the words `before` and `after`; none if it is no numeral there."""
        is_small, is_counted = _SMALL.fullmatch(written) is not None, before in _COUNTED
        if not (is_small or (is_counted and _LARGE.fullmatch(written))):
            return []
        value = str(_value(written))
        if after in _CENTURY:
            return self._numbers.ordinal(value)
        if before in _RULERS and written != "I":
            return ["the", *self._numbers.ordinal(value)]
        is_numeral = is_counted or (before[:1].isupper() and len(written) > 1)
        return self._numbers.cardinal(value) if is_numeral else []


def _value(numeral: str) -> int:
    values = [_VALUES[letter] for letter in numeral]
    following = [*values[1:], 0]
    return sum(-value if value < after else value for value, after in zip(values, following, strict=True))
