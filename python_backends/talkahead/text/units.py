"""Units of measure and money: how they are written, and said of one and of many."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Unit:
    """A unit's names in singular and plural."""

    one: str
    many: str

    def named(self, is_one: bool) -> list[str]:
        return (self.one if is_one else self.many).split()


def _regular(name: str) -> Unit:
    head, _, tail = name.partition(" per ")
    return Unit(name, f"{head}s per {tail}" if tail else f"{name}s")


INCH_MARK, FOOT_MARK = '"', "'"
_REGULAR = {
    "km": "kilometer", "m": "meter", "cm": "centimeter", "mm": "millimeter", "nm": "nanometer",
    "µm": "micrometer",
    "mi": "mile", "yd": "yard", "kg": "kilogram", "g": "gram", "mg": "milligram", "µg": "microgram",
    "lb": "pound",
    "lbs": "pound", "oz": "ounce", "l": "liter", "L": "liter", "ml": "milliliter", "mL": "milliliter",
    "cl": "centiliter", "gal": "gallon", "km/h": "kilometer per hour", "kph": "kilometer per hour",
    "kmh": "kilometer per hour", "mph": "mile per hour", "m/s": "meter per second", "W": "watt",
    "kW": "kilowatt",
    "MW": "megawatt", "GW": "gigawatt", "kWh": "kilowatt hour", "V": "volt", "mV": "millivolt",
    "kV": "kilovolt",
    "mA": "milliamp", "mAh": "milliamp hour", "kB": "kilobyte", "KB": "kilobyte", "MB": "megabyte",
    "GB": "gigabyte", "TB": "terabyte", "PB": "petabyte", "kbps": "kilobit per second",
    "Mbps": "megabit per second", "Gbps": "gigabit per second", "MB/s": "megabyte per second",
    "GB/s": "gigabyte per second", "ms": "millisecond", "µs": "microsecond", "ns": "nanosecond",
    "s": "second",
    "sec": "second", "secs": "second", "min": "minute", "mins": "minute", "h": "hour", "hr": "hour",
    "hrs": "hour",
    "dB": "decibel", "kPa": "kilopascal", "kJ": "kilojoule", "kcal": "kilocalorie", "cal": "calorie",
    "px": "pixel", "wk": "week", "wks": "week", "mo": "month", "mos": "month", "yr": "year", "yrs": "year",
    "day": "day", "pts": "point", "mpg": "mile per gallon",
    "tbsp": "tablespoon", "tsp": "teaspoon", "ha": "hectare", "mol": "mole", "Ω": "ohm", "kΩ": "kilohm",
}  # fmt: skip
_IRREGULAR = {
    "ft": ("foot", "feet"), "in": ("inch", "inches"), "Hz": ("hertz", "hertz"),
    "kHz": ("kilohertz", "kilohertz"),
    "m/s²": ("meter per second squared", "meters per second squared"),
    "MHz": ("megahertz", "megahertz"), "GHz": ("gigahertz", "gigahertz"),
    "m²": ("square meter", "square meters"), "m2": ("square meter", "square meters"),
    "km²": ("square kilometer", "square kilometers"), "km2": ("square kilometer", "square kilometers"),
    "m³": ("cubic meter", "cubic meters"), "m3": ("cubic meter", "cubic meters"),
    "cm²": ("square centimeter", "square centimeters"), "cm³": ("cubic centimeter", "cubic centimeters"),
    "ft²": ("square foot", "square feet"), "sq ft": ("square foot", "square feet"),
    "sq. ft.": ("square foot", "square feet"), "sq. mi.": ("square mile", "square miles"),
    "sq. in.": ("square inch", "square inches"),
    "sq mi": ("square mile", "square miles"), "sq km": ("square kilometer", "square kilometers"),
    "°C": ("degree celsius", "degrees celsius"), "°F": ("degree fahrenheit", "degrees fahrenheit"),
    "°": ("degree", "degrees"), "rpm": ("r p m", "r p m"), "bpm": ("b p m", "b p m"),
    "mmHg": ("millimeters of mercury", "millimeters of mercury"), "psi": ("p s i", "p s i"),
    "fps": ("f p s", "f p s"), "dpi": ("d p i", "d p i"), "%": ("percent", "percent"),
    "pct": ("percent", "percent"), "¢": ("cent", "cents"),
    "€": ("euro", "euros"), "£": ("pound", "pounds"), "¥": ("yen", "yen"), "₹": ("rupee", "rupees"),
    INCH_MARK: ("inch", "inches"), FOOT_MARK: ("foot", "feet"), "in.": ("inch", "inches"),
}  # fmt: skip
UNITS: dict[str, Unit] = {written: _regular(name) for written, name in _REGULAR.items()} | {
    written: Unit(one, many) for written, (one, many) in _IRREGULAR.items()
}
ATTACHED_ONLY = frozenset(("in", "s", "h", INCH_MARK, "¢", "cal", "ha", "mol"))
"""Also words or letters of their own: units only where no space parts them from the number."""
BEFORE_SIZES = frozenset(("in", FOOT_MARK))
"""Units after a space, or at all, only where a word of size follows ("6 in wide")."""

DIRECTIONS: dict[str, str] = {
    "N": "north", "S": "south", "E": "east", "W": "west", "NE": "northeast", "NW": "northwest",
    "SE": "southeast", "SW": "southwest",
}  # fmt: skip

_CENT = _regular("cent")
CURRENCIES: dict[str, tuple[Unit, Unit]] = {
    "$": (_regular("dollar"), _CENT),
    "US$": (_regular("u s dollar"), _CENT),
    "CA$": (_regular("canadian dollar"), _CENT),
    "A$": (_regular("australian dollar"), _CENT),
    "£": (_regular("pound"), Unit("penny", "pence")),
    "€": (_regular("euro"), _CENT),
    "¥": (Unit("yen", "yen"), Unit("sen", "sen")),
    "₹": (_regular("rupee"), Unit("paisa", "paise")),
    "₩": (Unit("won", "won"), Unit("jeon", "jeon")),
    "₱": (_regular("peso"), _regular("centavo")),
    "₽": (_regular("ruble"), _regular("kopeck")),
    "₪": (_regular("shekel"), Unit("agora", "agorot")),
    "₿": (_regular("bitcoin"), _regular("hundredth")),
    "CHF": (_regular("swiss franc"), _regular("centime")),
    "MXN": (_regular("mexican peso"), _regular("centavo")),
}
"""Signs and codes to a currency's names and those of its hundredth."""
_CODES = {"USD": "US$", "CAD": "CA$", "AUD": "A$", "EUR": "€", "GBP": "£", "CHF": "CHF", "MXN": "MXN"}
CURRENCIES |= {code: CURRENCIES[sign] for code, sign in _CODES.items()}
UNITS |= {code: CURRENCIES[code][0] for code in _CODES}

MAGNITUDES: dict[str, str] = {
    "k": "thousand", "K": "thousand", "m": "million", "M": "million", "mn": "million", "MM": "million",
    "bn": "billion", "b": "billion", "B": "billion", "tn": "trillion", "T": "trillion", "hundred": "hundred",
    "thousand": "thousand", "million": "million", "billion": "billion", "trillion": "trillion",
}  # fmt: skip
