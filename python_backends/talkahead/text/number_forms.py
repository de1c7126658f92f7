"""How each written form of a number is read: dates, times, money, measures, telephone numbers and so on."""

from __future__ import annotations

import re
from collections.abc import Callable

from talkahead.text.abbreviations import MONTHS
from talkahead.text.number_words import Numbers
from talkahead.text.spelling import LETTER_A, Spelling
from talkahead.text.symbols import COMMA
from talkahead.text.units import CURRENCIES, MAGNITUDES, UNITS
from talkahead.text.written_forms import VULGAR_FRACTIONS

Match = re.Match[str]
Reader = Callable[[Match], list[str]]

_FIRST_YEAR, _LAST_YEAR = 1100, 2099
_CENTURY_TURN = 50
"""Two-digit years below it are of this century."""
_NOON = 12
_ADDRESS_GROUPS = 4
_SIGNS = {"-": ["minus"], "−": ["minus"], "+": ["plus"]}
_DIGIT_GROUP = re.compile(r"\d+")


class NumberForms:
    """One reader per form of `written_forms`, from a match to spoken words and pauses."""

    def __init__(self, numbers: Numbers, spelling: Spelling) -> None:
        self._numbers = numbers
        self._spelling = spelling
        self.readers: dict[str, Reader] = {
            "month_day": self._month_day,
            "month_year": self._month_year,
            "day_month": self._day_month,
            "iso_date": self._iso_date,
            "slash_date": self._slash_date,
            "clock": self._clock,
            "money": self._money,
            "measure": self._measure,
            "height": self._height,
            "phone": self._digit_groups,
            "serial": self._digit_groups,
            "version": self._version,
            "ratio": lambda match: [
                *numbers.cardinal(match["r_one"]),
                "to",
                *numbers.cardinal(match["r_other"]),
            ],
            "decade": lambda match: numbers.decade(match["d_decade"]),
            "ordinal": lambda match: numbers.ordinal(match["o_value"]),
            "fraction": lambda match: self._fraction(match["f_whole"], match["f_above"], match["f_below"]),
            "vulgar": self._vulgar,
            "scientific": self._scientific,
            "by": lambda match: [*self._value(match["b_value"]), "by"],
            "name": lambda match: spelling.parts(match[0]),
            "number": self._number,
            "digits": lambda match: numbers.digits(match[0]),
        }

    def _number(self, match: Match) -> list[str]:
        return _SIGNS.get(match["n_sign"] or "", []) + self._value(match["n_value"])

    def _value(self, value: str) -> list[str]:
        is_year = len(value) == len("1999") and value.isdigit() and _FIRST_YEAR <= int(value) <= _LAST_YEAR
        return self._numbers.year(value) if is_year else self._numbers.decimal(value)

    def _date(self, month: int, day: str, year: str | None, pause: bool = False) -> list[str]:
        words = [MONTHS[month - 1], *self._numbers.ordinal(day)]
        return words + ([COMMA] if pause and year else []) + (self._numbers.year(year) if year else [])

    def _month_day(self, match: Match) -> list[str]:
        has_comma = COMMA in match[0]
        return self._date(_month_number(match["md_month"]), match["md_day"], match["md_year"], has_comma)

    def _month_year(self, match: Match) -> list[str]:
        return [MONTHS[_month_number(match["my_month"]) - 1], *self._numbers.year(match["my_year"])]

    def _day_month(self, match: Match) -> list[str]:
        month, year = MONTHS[_month_number(match["dm_month"]) - 1], match["dm_year"]
        article = [] if _follows_the(match) else ["the"]
        words = [*article, *self._numbers.ordinal(match["dm_day"]), "of", month]
        return words + (self._numbers.year(year) if year else [])

    def _iso_date(self, match: Match) -> list[str]:
        return self._date(int(match["id_month"]), match["id_day"], match["id_year"])

    def _slash_date(self, match: Match) -> list[str]:
        first, second, year = int(match["sd_first"]), int(match["sd_second"]), match["sd_year"]
        month, day = (second, first) if first > len(MONTHS) or match["sd_mark"] == "." else (first, second)
        if not (1 <= month <= len(MONTHS) and 1 <= day <= 31):
            return self._digit_groups(match)
        if len(year) == len("24"):
            year = ("20" if int(year) < _CENTURY_TURN else "19") + year
        return self._date(month, str(day), year)

    def _clock(self, match: Match) -> list[str]:
        hour, minute = match["c_hour"], match["c_minute"] or match["c_dotted"]
        half = match["c_half"] or match["c_only"]
        words = self._numbers.cardinal(str(int(hour)))
        if minute and int(minute):
            words += (
                ["oh", *self._numbers.cardinal(minute[1])]
                if minute[0] == "0"
                else self._numbers.cardinal(minute)
            )
        elif not half:
            words += ["o'clock"] if 1 <= int(hour) <= _NOON else ["hundred"]
        if match["c_second"]:
            words += ["and", *self._measured(str(int(match["c_second"])), "s")]
        return words + ([LETTER_A if half[0] in "aA" else "p", "m"] if half else [])

    def _money(self, match: Match) -> list[str]:
        unit, hundredth = CURRENCIES[match["mo_sign"]]
        amount, upper, times = match["mo_amount"], match["mo_to"], match["mo_times"]
        minus = ["minus"] if match["mo_minus"] else []
        whole, _, cents = amount.partition(".")
        if upper or times or len(cents) not in (0, 2):
            until = ["to", *self._numbers.decimal(upper)] if upper else []
            scale = [MAGNITUDES[times]] if times else []
            return minus + self._numbers.decimal(amount) + until + scale + unit.named(is_one=False)
        parts = (
            [self._numbers.cardinal(whole) + unit.named(_is_one(whole))]
            if whole.strip("0,") or not cents
            else []
        )
        if cents.strip("0"):
            small = str(int(cents))
            parts.append(self._numbers.cardinal(small) + hundredth.named(_is_one(small)))
        elif not parts:
            parts = [["zero", *unit.named(is_one=False)]]
        return minus + [
            word for part in (parts[0], *([["and"], parts[1]] if len(parts) > 1 else [])) for word in part
        ]

    def _measure(self, match: Match) -> list[str]:
        sign = _SIGNS.get(match["m_sign"] or "", [])
        unit = match["m_unit"] or match["m_attached"]
        per = ["per", *UNITS[match["m_per"]].named(is_one=True)] if match["m_per"] else []
        return sign + self._measured(match["m_value"], unit, is_compound=match["m_gap"] == "-") + per

    def _measured(self, value: str, unit: str, is_compound: bool = False) -> list[str]:
        return self._numbers.decimal(value) + UNITS[unit].named(is_compound or _is_one(value))

    def _height(self, match: Match) -> list[str]:
        return self._measured(match["h_feet"], "ft", is_compound=True) + self._numbers.cardinal(
            match["h_inches"]
        )

    def _digit_groups(self, match: Match) -> list[str]:
        words = ["plus"] if match[0].startswith("+") else []
        for group in _DIGIT_GROUP.findall(match[0]):
            words += [*self._numbers.digits(group), COMMA]
        return words[:-1]

    def _version(self, match: Match) -> list[str]:
        groups = match[0].split(".")
        is_address = len(groups) == _ADDRESS_GROUPS and any(len(group) > 1 for group in groups)
        words: list[str] = []
        for group in groups:
            words += self._numbers.digits(group) if is_address else self._numbers.cardinal(group)
            words.append("dot" if is_address else "point")
        return words[:-1]

    def _fraction(self, whole: str | None, above: str, below: str) -> list[str]:
        share = self._numbers.fraction(above, below)
        if not whole:
            return share
        return [*self._numbers.cardinal(whole), "and", *(["a", *share[1:]] if share[0] == "one" else share)]

    def _vulgar(self, match: Match) -> list[str]:
        above, below = VULGAR_FRACTIONS[match["v_share"]].split("/")
        return self._fraction(match["v_whole"], above, below)

    def _scientific(self, match: Match) -> list[str]:
        sign = ["minus"] if match["s_power"].startswith("-") else []
        power = self._numbers.cardinal(str(abs(int(match["s_power"]))))
        return [*self._numbers.decimal(match["s_digits"]), "times", "ten", "to", "the", *sign, *power]


def _month_number(written: str) -> int:
    """1 for "January", "jan", "JAN"."""
    return next(place for place, name in enumerate(MONTHS, 1) if name.startswith(written.lower()[:3]))


def _is_one(value: str) -> bool:
    return value in ("1", "1.0")


def _follows_the(match: Match) -> bool:
    return match.string[max(0, match.start() - 4) : match.start()].lower() == "the "
