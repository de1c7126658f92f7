"""Digits to words, by Unicode's CLDR spelling rules (the package unicode-rbnf) and English habits."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from unicode_rbnf import FormatPurpose, RbnfEngine

from talkahead.text.symbols import COMMA

MAX_CARDINAL_DIGITS = 15
"""Longer numbers are read digit by digit: nobody counts in quadrillions."""
_FIRST_YEAR, _LAST_YEAR = 1100, 2099
_CACHED_NUMBERS = 4_096
_DIGIT_GROUP = re.compile(r"\d+")
_DIGIT_NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_SHARES = {2: "half", 4: "quarter"}
_NAMED_SHARES = frozenset((*range(2, 17), 20, 32, 50, 64, 100))
"""Denominators that people say as shares."""
_SMALLEST_EVEN = 20
"""From here on a number over itself says two equal counts."""


class Numbers:
    """Reads numbers; remembers the latest ones."""

    def __init__(self) -> None:
        self._engine = RbnfEngine.for_language("en")
        self._spell = lru_cache(_CACHED_NUMBERS)(self._spell_out)

    def _spell_out(self, value: int, purpose: FormatPurpose) -> tuple[str, ...]:
        return tuple(self._engine.format_number(value, purpose).text.replace("-", " ").split())

    def digits(self, text: str) -> list[str]:
        """Each digit's name; other characters are left out."""
        return [_DIGIT_NAMES[int(digit)] for digit in text if digit.isascii() and digit.isdigit()]

    def digit_groups(self, text: str) -> list[str]:
        """Digits with a pause between groups, as a telephone number: "plus one, two one two"."""
        plus = ["plus"] if text.startswith("+") else []
        return plus + paused(map(self.digits, _DIGIT_GROUP.findall(text)))

    def cardinal(self, text: str) -> list[str]:
        """A whole number as it is counted; "007" and endless ones digit by digit. Commas are ignored."""
        plain = text.replace(",", "")
        if len(plain) > MAX_CARDINAL_DIGITS or (len(plain) > 1 and plain[0] == "0"):
            return self.digits(plain)
        return list(self._spell(int(plain), FormatPurpose.CARDINAL))

    def decimal(self, text: str) -> list[str]:
        """A whole or decimal number: "1,234.50", ".5", "7"."""
        whole, point, fraction = text.partition(".")
        words = self.cardinal(whole) if whole else []
        return [*words, "point", *self.digits(fraction)] if point else words

    def value(self, text: str) -> list[str]:
        """A number that stands alone: a year where it can be one, else counted."""
        return self.year(text) if is_year(text) else self.decimal(text)

    def ordinal(self, text: str) -> list[str]:
        plain = text.replace(",", "")
        if len(plain) > MAX_CARDINAL_DIGITS:
            return [*self.digits(plain), "th"]
        return list(self._spell(int(plain), FormatPurpose.ORDINAL))

    def year(self, text: str) -> list[str]:
        """Four digits as a year: "nineteen oh five", "two thousand one", "twenty twenty four"."""
        return list(self._spell(int(text), FormatPurpose.YEAR)) if text[0] != "0" else self.digits(text)

    def pairs(self, text: str) -> list[str]:
        """The number in a name ("Boeing 747", "room 305"): short and in pairs, else digit by digit."""
        if len(text) == 4 and text[0] != "0" and text[1:] != "000":
            return self.year(text)
        if len(text) == 3 and text[0] != "0" and text[1] != "0":
            return self.cardinal(text[0]) + self.cardinal(text[1:])
        return self.cardinal(text) if len(text) <= 2 or text[1:] in ("00", "000") else self.digits(text)

    def place(self, text: str) -> list[str]:
        """The number of a room or road: "three oh five", "two eighty", "ten forty"."""
        if len(text) == len("305") and text[0] != "0" and text[1:] != "00":
            return (
                self.cardinal(text[0])
                + (["oh"] if text[1] == "0" else [])
                + self.cardinal(str(int(text[1:])))
            )
        return self.value(text)

    def fraction(self, above: str, below: str) -> list[str]:
        """A fraction: "three quarters", "one third", "seven over one hundred twenty three"."""
        share = int(below)
        if share >= _SMALLEST_EVEN and above == below:  # "fifty fifty"
            return self.cardinal(above) * 2
        if not is_named_share(share):
            return [*self.cardinal(above), "over", *self.cardinal(below)]
        name = [_SHARES[share]] if share in _SHARES else self.ordinal(below)
        return self.cardinal(above) + (name if int(above) == 1 else plural(name))

    def decade(self, text: str) -> list[str]:
        """The plural of a year or of two digits: "nineteen nineties", "eighties"."""
        return plural(self.year(text) if len(text) == 4 else self.cardinal(text))


def paused(groups: Iterable[list[str]]) -> list[str]:
    """Groups of words with a pause between them: who hears them writes them down."""
    return [word for group in groups for word in (*group, COMMA)][:-1]


def is_year(text: str) -> bool:
    """Whether a number that stands alone is read as a year."""
    return len(text) == len("1999") and text.isdigit() and _FIRST_YEAR <= int(text) <= _LAST_YEAR


def is_named_share(below: int) -> bool:
    """Whether people say fractions with this denominator as shares ("three eighths")."""
    return below in _NAMED_SHARES


def plural(words: list[str]) -> list[str]:
    """The words with the last one in the plural."""
    last = words[-1]
    if last == "half":
        ending = "halves"
    elif last.endswith("y"):
        ending = last[:-1] + "ies"
    else:
        ending = last + ("es" if last.endswith(("x", "s", "ch", "sh")) else "s")
    return [*words[:-1], ending]
