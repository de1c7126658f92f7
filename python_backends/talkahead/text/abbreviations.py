"""Abbreviations: what they stand for, and what a full stop after them means."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto


class Stop(Enum):
    """What the full stop after an abbreviation asks of the words around it."""

    NEVER_ENDS = auto()
    """Titles: a name follows, so the sentence goes on."""
    BEFORE_NUMBER = auto()
    """An abbreviation only where a number follows ("No. 5", "p. 12")."""
    MAY_END = auto()
    """The sentence ends here if the next word opens one."""


@dataclass(frozen=True)
class Abbreviation:
    """Spoken words, and how to take the full stop."""

    words: str
    stop: Stop
    needs_stop: bool = True
    """Whether it is an abbreviation only with its full stop ("Gen.", but also "Mr")."""


_TITLES = {
    "Prof": "professor", "Gov": "governor", "Gen": "general", "Sen": "senator", "Rep": "representative",
    "Sgt": "sergeant", "Capt": "captain", "Lt": "lieutenant", "Col": "colonel", "Maj": "major",
    "Cmdr": "commander",
    "Rev": "reverend", "Hon": "honorable", "Pres": "president", "Mt": "mount", "Ft": "fort",
    "Messrs": "messieurs",
    "Adm": "admiral", "Cpl": "corporal", "Supt": "superintendent",
}  # fmt: skip
_OPEN_TITLES = {"Mr": "mister", "Mrs": "missus", "Ms": "miz", "Dr": "doctor", "St": "saint"}
_NUMBERED = {
    "No": "number", "no": "number", "Nos": "numbers", "nos": "numbers", "p": "page", "pp": "pages",
    "P": "page",
    "Vol": "volume", "vol": "volume", "Ch": "chapter", "ch": "chapter", "Fig": "figure", "fig": "figure",
    "Figs": "figures", "Sec": "section", "sec": "section", "Eq": "equation", "eq": "equation",
    "Art": "article",
    "art": "article", "Apt": "apartment", "apt": "apartment", "Ste": "suite", "ca": "circa", "c": "circa",
    "pt": "part", "Pt": "part", "Ex": "example", "ed": "edition", "min": "minimum", "Min": "minimum",
    "Rm": "room", "rm": "room",
}  # fmt: skip
_PLAIN = {
    "Jr": "junior", "Sr": "senior", "Inc": "incorporated", "Ltd": "limited", "Corp": "corporation",
    "Co": "company", "Bros": "brothers", "Ave": "avenue", "Rd": "road", "Ln": "lane",
    "Dept": "department", "dept": "department",
    "approx": "approximately",
    "est": "established", "Est": "established", "govt": "government", "Govt": "government",
    "misc": "miscellaneous",
    "cf": "compare", "viz": "namely", "al": "al", "Jan": "january", "Feb": "february", "Aug": "august",
    "Sept": "september", "Oct": "october", "Nov": "november", "Dec": "december", "Mon": "monday",
    "Tues": "tuesday", "Tue": "tuesday",
    "Wed": "wednesday", "Thurs": "thursday", "Thu": "thursday", "Fri": "friday", "Assn": "association",
    "Univ": "university", "tel": "telephone", "Tel": "telephone", "ext": "extension", "Ext": "extension",
    "max": "maximum",
    "temp": "temperature", "avg": "average", "incl": "including", "excl": "excluding", "appt": "appointment",
}  # fmt: skip
_OPEN_PLAIN = {
    "vs": "versus", "Vs": "versus", "etc": "et cetera", "Etc": "et cetera", "PhD": "p h d",
    "Blvd": "boulevard", "Hwy": "highway", "Pkwy": "parkway", "YoY": "year over year", "thx": "thanks",
    "pls": "please",
    "btw": "by the way", "idk": "i don't know", "fyi": "f y i", "imo": "in my opinion",
}  # fmt: skip

ABBREVIATIONS: dict[str, Abbreviation] = {
    **{written: Abbreviation(words, Stop.NEVER_ENDS) for written, words in _TITLES.items()},
    **{
        written: Abbreviation(words, Stop.NEVER_ENDS, needs_stop=False)
        for written, words in _OPEN_TITLES.items()
    },
    **{written: Abbreviation(words, Stop.BEFORE_NUMBER) for written, words in _NUMBERED.items()},
    **{written: Abbreviation(words, Stop.MAY_END) for written, words in _PLAIN.items()},
    **{
        written: Abbreviation(words, Stop.MAY_END, needs_stop=False) for written, words in _OPEN_PLAIN.items()
    },
}
"""By the written form without its full stop; case matters ("Gen." is a title, "gen" a word)."""


def said_for(word: str) -> list[str]:
    """What a word in small letters is read as: itself, or what it is short for even without a full stop."""
    found = ABBREVIATIONS.get(word)
    return [word] if found is None or found.needs_stop else found.words.split()


AFTER_A_NAME: dict[str, str] = {"St": "street", "Dr": "drive", "Ft": "feet", "Ave": "avenue"}
"""What some mean after a capitalised word that no name follows ("Baker St.")."""

DOTTED: dict[str, str] = {"e.g.": "for example", "i.e.": "that is", "c.f.": "compare"}
"""Abbreviations with stops inside that are not spelled."""

PHRASES: dict[str, str] = {
    "w/": "with", "w/o": "without", "b/c": "because", "c/o": "care of", "C++": "c plus plus", "C#": "c sharp",
    "24/7": "twenty four seven", "9/11": "nine eleven", "R&D": "r and d", "Q&A": "q and ay",
    "911": "nine one one",
    "Ph.D.": "p h d", "M.Sc.": "m s c", "B.Sc.": "b s c", "&c": "et cetera", "'n'": "and",
    "N/A": "not applicable", "n/a": "not applicable", "I/O": "i o", "401k": "four oh one k",
    "401(k)": "four oh one k", "100s of": "hundreds of", "1000s of": "thousands of",
    "1,000s of": "thousands of", "TL;DR": "t l d r", "M-F": "monday to friday",
    "Ctrl": "control", "ctrl": "control", "Cmd": "command", "cmd": "command", "n°": "number", "N°": "number",
    "WWI": "world war one", "WW1": "world war one", "WWII": "world war two", "WW2": "world war two",
}  # fmt: skip
"""Short forms with marks inside, read whole."""

MONTHS: tuple[str, ...] = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october",
    "november",
    "december",
)  # fmt: skip
WEEKDAYS: tuple[str, ...] = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
