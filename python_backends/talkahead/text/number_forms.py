"""How numbers without a unit are read: counts, ranks, shares, telephone numbers, versions."""

from __future__ import annotations

import re
from collections.abc import Callable

from talkahead.text.date_forms import DateForms, is_day_of_year
from talkahead.text.neighbours import Match, Reader, is_code, is_place, text_before, word_before
from talkahead.text.number_words import Numbers, is_named_share, paused
from talkahead.text.quantity_forms import SIGNS, QuantityForms
from talkahead.text.spelling import Spelling
from talkahead.text.symbols import COMMA
from talkahead.text.transliteration import as_ascii
from talkahead.text.units import UNITS
from talkahead.text.word_list import word_list
from talkahead.text.written_forms import VULGAR_FRACTIONS, WEEKDAY

_ADDRESS_GROUPS = 4
_UNCOUNTED, _TELEPHONE = 9, 10
"""Digits from which on a number without commas is no count, unless it is round; those of a telephone."""
_LONG_PART = re.compile(r"(?<=\w\w)-")
"""Ends after more than one character."""
_WHOLE = 100
"""Percent, that two shares make."""
_BEHIND_WEEKDAY = re.compile(rf"\b{WEEKDAY}(?:day)?[.,]{{0,2}}\s\Z")
_LONGEST_WEEKDAY = len(" Wednesday., ")
_BEFORE_DATES = word_list("on until before after since through due")
_BEFORE_DATES_AND_SHARES = word_list("by from")


class NumberForms:
    """One reader per form of `written_forms`, from a match to spoken words and pauses."""

    def __init__(self, numbers: Numbers, spelling: Spelling) -> None:
        self._numbers = numbers
        self._spelling = spelling
        self._dates = DateForms(numbers)
        self._ways: dict[str, Callable[[str], list[str]]] = {
            "spell": self._spelled,
            "digits": numbers.digits,
            "cardinal": numbers.cardinal,
            "ordinal": numbers.ordinal,
            "year": numbers.year,
            "date": self._date,
        }
        self.readers: dict[str, Reader] = {
            **self._dates.readers,
            **QuantityForms(numbers).readers,
            "phone": lambda match: numbers.digit_groups(match[0]),
            "serial": lambda match: numbers.digit_groups(match[0]),
            "vanity": self._vanity,
            "code": lambda match: numbers.digits(match[0]),
            "version": self._version,
            "hexadecimal": lambda match: paused(map(self._spelled, match[0].split(match["hx_mark"]))),
            "identifier": lambda match: paused(map(self._parts, _LONG_PART.split(match[0]))),
            "ratio": lambda match: [
                *numbers.cardinal(match["r_one"]),
                "to",
                *numbers.cardinal(match["r_other"]),
            ],
            "ordinal": lambda match: numbers.ordinal(match["o_value"]),
            "fraction": self._fraction,
            "vulgar": self._vulgar,
            "scientific": self._scientific,
            "name": lambda match: spelling.parts(match[0]),
            "say_as": self._say_as,
            "item": lambda match: [*numbers.cardinal(match["i_number"]), COMMA],
            "number": self._number,
            "digits": lambda match: numbers.digits(match[0]),
        }

    def _say_as(self, match: Match) -> list[str]:
        return self._ways[match["sa_way"]](match["sa_text"])

    def _spelled(self, text: str) -> list[str]:
        letters = re.sub(r"[\W_]", "", as_ascii(text))
        return [
            word
            for letter in letters
            for word in (self._numbers.digits(letter) or self._spelling.letters(letter))
        ]

    def _date(self, text: str) -> list[str]:
        month, day, *year = text.split("/")
        return self._dates.day(int(month), day, *year)

    def _number(self, match: Match) -> list[str]:
        value, sign = match["n_value"], SIGNS.get(match["n_sign"] or "", [])
        if value.isdigit() and is_code(match):
            words = self._numbers.digits(value)
        elif value.isdigit() and len(value) >= _UNCOUNTED and not value.endswith("000"):
            is_telephone = len(value) == _TELEPHONE
            grouped = f"{value[:3]} {value[3:6]} {value[6:]}" if is_telephone else value
            words = self._numbers.digit_groups(grouped)
        else:
            words = self._numbers.place(value) if is_place(match) else self._numbers.value(value)
        return [*sign, *words[:-1], words[-1] + (match["n_of"] or "")]

    def _vanity(self, match: Match) -> list[str]:
        words = [*self._numbers.digit_groups(match["va_digits"]), COMMA]
        return words + self._spelling.address(match["va_letters"].replace("-", " ").lower())

    def _version(self, match: Match) -> list[str]:
        groups, mask = match["ve_parts"].split("."), match["ve_mask"]
        is_address = len(groups) == _ADDRESS_GROUPS and any(len(group) > 1 for group in groups)
        words: list[str] = []
        for group in groups:
            words += self._numbers.digits(group) if is_address else self._numbers.cardinal(group)
            words.append("dot" if is_address else "point")
        return words[:-1] + (["slash", *self._numbers.cardinal(mask)] if mask else [])

    def _fraction(self, match: Match) -> list[str]:
        whole, above, below, unit = match["f_whole"], match["f_above"], match["f_below"], match["f_unit"]
        if above[0] == "0" and not unit:  # "08/27" on a card
            return self._numbers.digits(above) + self._numbers.cardinal(below)
        if not whole and not unit and self._is_date(match):
            return self._dates.day(int(above), below)
        return self._shared(whole, above, below) + _named(unit, whole)

    def _is_date(self, match: Match) -> bool:
        month, day, before = match["f_above"], match["f_below"], word_before(match).lower()
        is_likely = before in _BEFORE_DATES_AND_SHARES and not is_named_share(int(day))
        is_weekdays = _BEHIND_WEEKDAY.search(text_before(match, _LONGEST_WEEKDAY))
        return is_day_of_year(month, day) and bool(is_likely or is_weekdays or before in _BEFORE_DATES)

    def _shared(self, whole: str | None, above: str, below: str) -> list[str]:
        if not whole and int(above) + int(below) == _WHOLE:  # "eighty twenty"
            return self._numbers.cardinal(above) + self._numbers.cardinal(below)
        share = self._numbers.fraction(above, below)
        if not whole:
            return share
        return [*self._numbers.cardinal(whole), "and", *(["a", *share[1:]] if share[0] == "one" else share)]

    def _parts(self, text: str) -> list[str]:
        """Of an identifier: "F-16C" goes on without a pause."""
        return [word for part in text.split("-") for word in self._spelling.parts(part)]

    def _vulgar(self, match: Match) -> list[str]:
        above, below = VULGAR_FRACTIONS[match["v_share"]].split("/")
        return self._shared(match["v_whole"], above, below) + _named(match["v_unit"], match["v_whole"])

    def _scientific(self, match: Match) -> list[str]:
        sign = ["minus"] if match["s_power"].startswith("-") else []
        power = self._numbers.cardinal(str(abs(int(match["s_power"]))))
        return [*self._numbers.decimal(match["s_digits"]), "times", "ten", "to", "the", *sign, *power]


def _named(unit: str | None, whole: str | None) -> list[str]:
    """The unit after a fraction: "three quarters inch", "one and a half inches"."""
    return UNITS[unit].named(is_one=not whole) if unit else []
