"""Text that is still being written, cut into clauses that can be spoken."""

from __future__ import annotations

import re

MIN_CHARACTERS = 40
"""Of a clause that ends before its sentence does: speech in smaller pieces loses its melody."""
MAX_CHARACTERS = 300
"""Of a clause; a longer one is cut between words."""

SENTENCE_PAUSE_S, CLAUSE_PAUSE_S = 0.35, 0.12
"""How long a reader stops after a sentence and within one, as the server does between those of one text."""

_STOPS = ".!?…。！？"
_COMMAS = ",;:"
_CLOSING = "\"'”’»)]}」』）"
_BORDER = re.compile(
    rf"(?P<wide>[。！？])|\n[ \t]*\n|(?P<mark>[.!?…]+|[{_COMMAS}])[{re.escape(_CLOSING)}]*\s"
)
"""What may end a clause. Before the space, `3.` may become `3.14`, and `No!` may become `No!"`."""
_LAST_WORD = re.compile(r"(?:^|[\s(\[\"'“‘«])(\S*)\Z")
_LIST_NUMBER = re.compile(r"\s*\d+")
_DOTTED = re.compile(r"(?:[A-Za-z]{1,3}\.)+[A-Za-z]{1,3}")
_SOUND = re.compile(r"[^\W_]")

ABBREVIATIONS = frozenset((
    "Adm", "Assn", "Aug", "Ave", "Blvd", "Bros", "Capt", "Cmdr", "Co", "Col", "Corp", "Cpl", "Dec", "Dept",
    "Dr", "Est", "Etc", "Ext", "Feb", "Fri", "Ft", "Gen", "Gov", "Govt", "Hon", "Hwy", "Inc", "Jan", "Jr",
    "Ln", "Lt", "Ltd", "Maj", "Messrs", "Mon", "Mr", "Mrs", "Ms", "Mt", "Nov", "Oct", "PhD", "Pkwy", "Pres",
    "Prof", "Rd", "Rep", "Rev", "Sen", "Sept", "Sgt", "Sr", "St", "Supt", "Tel", "Thu", "Thurs", "Tue",
    "Tues", "Univ", "Vs", "Wed", "YoY", "al", "approx", "appt", "avg", "btw", "cf", "dept", "est", "etc",
    "excl", "ext", "fyi", "govt", "idk", "imo", "incl", "max", "misc", "pls", "tel", "temp", "thx", "viz",
    "vs",
))  # fmt: skip
"""After these, a full stop need not end the sentence."""
BEFORE_NUMBERS = frozenset((
    "Apt", "Art", "Ch", "Eq", "Ex", "Fig", "Figs", "Min", "No", "Nos", "P", "Pt", "Rm", "Sec", "Ste", "Vol",
    "apt", "art", "c", "ca", "ch", "ed", "eq", "fig", "min", "no", "nos", "p", "pp", "pt", "rm", "sec", "vol",
))  # fmt: skip
"""After these, it ends the sentence unless a number follows."""


class ClauseCutter:
    """Takes text in any pieces, and gives it back in clauses, each as soon as it is sure to be one.

    All clauses and the rest, joined, are the text. Where it is cut depends on the text alone, and not on the
    pieces in which it came.
    """

    def __init__(self) -> None:
        self._text = ""

    def add(self, text: str) -> list[str]:
        """The clauses that this completes."""
        self._text += text
        clauses = []
        begin = 0
        while (end := self._end(begin)) is not None:
            clauses.append(self._text[begin:end])
            begin = end
        self._text = self._text[begin:]
        return clauses

    def flush(self) -> str:
        """The rest, which nothing follows; it may be empty."""
        rest, self._text = self._text, ""
        return rest

    def _end(self, begin: int) -> int | None:
        """Of the first clause from a place on."""
        limit = begin + MAX_CHARACTERS
        for border in _BORDER.finditer(self._text, begin, limit):
            if self._is_sure(begin, border, limit):
                return border.end()
        return self._last_space(begin, limit) if len(self._text) >= limit else None

    def _is_sure(self, begin: int, border: re.Match[str], limit: int) -> bool:
        clause = self._text[begin : border.end()]
        if not says_something(clause) or clause.rfind("[") > clause.rfind("]"):
            # In brackets stands what is pronounced as the parentheses after them say.
            return False
        if border["mark"] == ".":
            return self._ends_sentence(begin, border, limit)
        return border["mark"] not in tuple(_COMMAS) or len(clause.strip()) >= MIN_CHARACTERS

    def _ends_sentence(self, begin: int, border: re.Match[str], limit: int) -> bool:
        """Whether a single full stop does."""
        before = self._text[begin : border.start()]
        found = _LAST_WORD.search(before)
        word = found[1] if found else ""
        if word in BEFORE_NUMBERS:
            following = self._text[border.end() : limit][:1]
            return bool(following) and not following.isdigit()
        is_initial = len(word) == 1 and word.isalpha()
        is_short = is_initial or word in ABBREVIATIONS or _DOTTED.fullmatch(word)
        return not (is_short or _LIST_NUMBER.fullmatch(before))

    def _last_space(self, begin: int, limit: int) -> int:
        """The end of the last whole word before a limit, with the space after it; else the limit."""
        sound = _SOUND.search(self._text, begin, limit)
        first = sound.end() if sound else limit
        spaces = (place for place in range(limit - 1, first - 1, -1) if self._text[place].isspace())
        return next(spaces, limit - 1) + 1


def says_something(text: str) -> bool:
    """Whether there is a letter or a digit in it."""
    return _SOUND.search(text) is not None


def pause_after_s(clause: str) -> float:
    """How long a reader stops after a clause that another one follows, in seconds."""
    mark = clause.rstrip().rstrip(_CLOSING)[-1:]
    if mark and mark in _STOPS:
        return SENTENCE_PAUSE_S
    return CLAUSE_PAUSE_S if mark and mark in _COMMAS else 0.0
