"""How money, measures and other counted things are read."""

from __future__ import annotations

import re

from talkahead.text.neighbours import Match, Reader, closes_quote, modifies_noun, precedes_noun
from talkahead.text.number_words import Numbers
from talkahead.text.symbols import COMMA
from talkahead.text.units import CURRENCIES, DIRECTIONS, INCH_MARK, MAGNITUDES, UNITS

SIGNS = {"-": ["minus"], "−": ["minus"], "+": ["plus"]}
_COMMA_BEFORE_CENTS = re.compile(r",(?=\d\d\Z)")
_PRODUCT = re.compile(r"\s?[\d.,]{1,20}\s?[=^]")
"""What follows the sign of a multiplication, rather than of a size."""


class QuantityForms:
    """One reader per form of `written_forms` that has a unit."""

    def __init__(self, numbers: Numbers) -> None:
        self._numbers = numbers
        self.readers: dict[str, Reader] = {
            "money": self._money,
            "price": lambda match: self._paid(_with_point(match["la_amount"]), match["la_sign"]),
            "measure": self._measure,
            "height": self._height,
            "bearing": self._bearing,
            "by": self._by,
            "multiple": lambda match: [*numbers.decimal(match["x_value"]), "times"],
            "thousands": lambda match: [*numbers.decimal(match["k_value"]), MAGNITUDES[match["k_times"]]],
            "per": lambda match: ["per", *(UNITS[match["p_unit"]].named(True) if match["p_unit"] else [])],
        }

    def _money(self, match: Match) -> list[str]:
        amount, upper, times = _with_point(match["mo_amount"]), match["mo_to"], match["mo_times"]
        minus = ["minus"] if match["mo_minus"] else []
        if not upper and not times and len(amount.partition(".")[2]) in (0, 2):
            return minus + self._paid(amount, match["mo_sign"], modifies_noun(match))
        until = ["to", *self._numbers.decimal(upper)] if upper else []
        scale = [MAGNITUDES[times]] if times else []
        unit, _ = CURRENCIES[match["mo_sign"]]
        is_one = match["mo_gap"] == "-" or modifies_noun(match)
        return minus + self._numbers.decimal(amount) + until + scale + unit.named(is_one)

    def _paid(self, amount: str, sign: str, is_adjective: bool = False) -> list[str]:
        """Whole ones and hundredths."""
        unit, hundredth = CURRENCIES[sign]
        whole, _, cents = amount.partition(".")
        parts = []
        if whole.strip("0,") or not cents.strip("0"):
            count = self._numbers.cardinal(whole) if whole.strip("0,") else ["zero"]
            parts.append(count + unit.named(_is_one(whole) or (not cents and is_adjective)))
        if cents.strip("0"):
            small = str(int(cents))
            parts.append(self._numbers.cardinal(small) + hundredth.named(_is_one(small)))
        return parts[0] if len(parts) == 1 else [*parts[0], "and", *parts[1]]

    def _measure(self, match: Match) -> list[str]:
        sign = SIGNS.get(match["m_sign"] or "", [])
        unit = match["m_unit"] or match["m_attached"]
        if unit == INCH_MARK and closes_quote(match):
            return sign + self._numbers.value(match["m_value"])
        per = ["per", *UNITS[match["m_per"]].named(is_one=True)] if match["m_per"] else []
        is_adjective = match["m_gap"] == "-" or modifies_noun(match)
        is_adjective |= unit == INCH_MARK and precedes_noun(match)
        return sign + self._measured(match["m_value"], unit, is_adjective) + per

    def _measured(self, value: str, unit: str, is_adjective: bool = False) -> list[str]:
        return self._numbers.decimal(value) + UNITS[unit].named(is_adjective or _is_one(value))

    def _height(self, match: Match) -> list[str]:
        return self._measured(match["h_feet"], "ft", is_adjective=True) + self._numbers.cardinal(
            match["h_inches"]
        )

    def _bearing(self, match: Match) -> list[str]:
        words = self._measured(match["g_degrees"], "°")
        for group, unit in (("g_minutes", "min"), ("g_seconds", "sec")):
            if match[group]:
                words += [COMMA, *self._measured(match[group], unit)]
        return [*words, DIRECTIONS[match["g_direction"]]]

    def _by(self, match: Match) -> list[str]:
        value = self._numbers.value(match["b_value"]) if match["b_value"] else []
        return [*value, "times" if _PRODUCT.match(match.string, match.end()) else "by"]


def _with_point(amount: str) -> str:
    """A comma before cents, as in "49,99", is a point."""
    return _COMMA_BEFORE_CENTS.sub(".", amount)


def _is_one(value: str) -> bool:
    return value in ("1", "1.0")
