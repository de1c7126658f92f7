"""How dates, times of day and durations are read."""

from __future__ import annotations

from talkahead.text.abbreviations import MONTHS, WEEKDAYS
from talkahead.text.neighbours import Match, Reader, text_before
from talkahead.text.number_words import Numbers
from talkahead.text.spelling import LETTER_A
from talkahead.text.symbols import COMMA
from talkahead.text.units import UNITS

_CENTURY_TURN = 50
"""Two-digit years below it are of this century."""
_NOON = 12
_DAYS_OF_MONTH = 31
_ABBREVIATED = 3
"""Letters that tell months and weekdays apart."""


class DateForms:
    """One reader per form of `written_forms` that names a day or a time."""

    def __init__(self, numbers: Numbers) -> None:
        self._numbers = numbers
        self.readers: dict[str, Reader] = {
            "month_day": self._month_day,
            "month_year": self._month_year,
            "day_month": self._day_month,
            "iso_date": self._iso_date,
            "slash_date": self._slash_date,
            "span": lambda match: [_calendar_name(match["sp_from"]), "to", _calendar_name(match["sp_to"])],
            "weekday": lambda match: [_calendar_name(match[0])],
            "clock": self._clock,
            "duration": self._duration,
            "decade": lambda match: numbers.decade(match["d_decade"]),
        }

    def day(self, month: int, day: str, year: str | None = None) -> list[str]:
        """ "january fifth twenty twenty four"."""
        words = [MONTHS[month - 1], *self._numbers.ordinal(day)]
        return words + (self._numbers.year(year) if year else [])

    def _month_day(self, match: Match) -> list[str]:
        words = self.day(_month_number(match["md_month"]), match["md_day"])
        if match["md_to"]:
            words += ["to", *self._numbers.ordinal(match["md_to"])]
        if not match["md_year"]:
            return words
        return words + ([COMMA] if COMMA in match[0] else []) + self._numbers.year(match["md_year"])

    def _month_year(self, match: Match) -> list[str]:
        return [_calendar_name(match["my_month"]), *self._numbers.year(match["my_year"])]

    def _day_month(self, match: Match) -> list[str]:
        article = [] if _follows_the(match) else ["the"]
        month, year = _calendar_name(match["dm_month"]), match["dm_year"]
        words = [*article, *self._numbers.ordinal(match["dm_day"]), "of", month]
        return words + (self._numbers.year(year) if year else [])

    def _iso_date(self, match: Match) -> list[str]:
        return self.day(int(match["id_month"]), match["id_day"], match["id_year"])

    def _slash_date(self, match: Match) -> list[str]:
        first, second, year = match["sd_first"], match["sd_second"], match["sd_year"]
        is_day_first = int(first) > len(MONTHS) or match["sd_mark"] == "."
        month, day = (second, first) if is_day_first else (first, second)
        if not is_day_of_year(month, day):
            return self._numbers.digit_groups(match[0])
        if len(year) == len("24"):
            year = ("20" if int(year) < _CENTURY_TURN else "19") + year
        return self.day(int(month), day, year)

    def _clock(self, match: Match) -> list[str]:
        hour, minute = match["c_hour"], match["c_minute"] or match["c_dotted"]
        half = match["c_half"] or match["c_only"]
        words = self._numbers.cardinal(str(int(hour)))
        if minute and int(minute):
            words += [*(["oh"] if minute[0] == "0" else []), *self._numbers.cardinal(str(int(minute)))]
        elif not half:
            words += ["o'clock"] if 1 <= int(hour) <= _NOON else ["hundred"]
        if match["c_second"]:
            words += ["and", *self._lasting(match["c_second"], "s")]
        return words + ([LETTER_A if half[0] in "aA" else "p", "m"] if half else [])

    def _duration(self, match: Match) -> list[str]:
        parts = (("du_hours", "h"), ("du_minutes", "min"), ("du_seconds", "s"))
        return [word for group, unit in parts if match[group] for word in self._lasting(match[group], unit)]

    def _lasting(self, value: str, unit: str) -> list[str]:
        count = int(value)
        return self._numbers.cardinal(str(count)) + UNITS[unit].named(count == 1)


def is_day_of_year(month: str, day: str) -> bool:
    return 1 <= int(month) <= len(MONTHS) and 1 <= int(day) <= _DAYS_OF_MONTH


def _calendar_name(written: str) -> str:
    """The full name of a month or weekday written in full or in short."""
    short = written.lower()[:_ABBREVIATED]
    return next(name for name in (*MONTHS, *WEEKDAYS) if name.startswith(short))


def _month_number(written: str) -> int:
    """1 for "January", "jan", "JAN"."""
    return MONTHS.index(_calendar_name(written)) + 1


def _follows_the(match: Match) -> bool:
    return text_before(match, 4).lower() == "the "
