"""Written text to spoken words, each with its place in the original."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from talkahead.text.abbreviations import ABBREVIATIONS, AFTER_A_NAME, DOTTED, PHRASES, Abbreviation, Stop
from talkahead.text.lexicon import Lexicon
from talkahead.text.number_forms import Match, NumberForms, Reader
from talkahead.text.number_words import Numbers
from talkahead.text.roman import RomanNumerals
from talkahead.text.spelling import LETTER_A, Spelling
from talkahead.text.symbols import COMMA, EXCLAMATION, PERIOD, QUESTION
from talkahead.text.transliteration import as_ascii, flatten
from talkahead.text.word_list import SENTENCE_STARTERS, word_list
from talkahead.text.written_forms import PATTERN

SENTENCE_ENDS = frozenset((PERIOD, QUESTION, EXCLAMATION))
_DIGITS_PER_GROUP = 3
_CONTEXT = 24
"""Characters looked back for the word before."""
_CONSONANTS = re.compile(r"[b-df-hj-np-tv-xz]{2,5}")
_DOUBLED = re.compile(r"(.)\1")
"""Marks a sound, as in "psst" and "brr", rather than letters to be named."""
_OPENING = frozenset("([{")
_GRADED = word_list(
    "an An vitamin Vitamin plan Plan grade Grade type Type class Class option Option group Group team"
)
"""Words before the letter A."""
_NEXT_WORD = re.compile(r"[\s\"'(\[]*([^\W\d_]+|\d)")
_NOTHING_LEFT = re.compile(r"[\s\"')\]]*\Z")
_FILE_ENDING = re.compile(
    r"(?:py|js|ts|txt|pdf|csv|json|html?|md|exe|zip|jpe?g|png|docx?|xlsx?|mp[34]|gif|xml|ya?ml|sh)\b"
)
_WORD_BEFORE = re.compile(r"([^\W\d_]+)['\"]?[\s-]*$")
_INNER_CAPITAL = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]")
_CAPITALS = re.compile(r"[A-Z]{2,}(?:'?s)?")
_ELLIPSIS = re.compile(r"\.\.+|…")
_INITIAL = re.compile(r"\.\s?(?:[A-Z]\.|[A-Z][a-z])")
_PROTOCOL = re.compile(r"^https?://", re.IGNORECASE)
_CLIPPED = {
    "em": "them", "tis": "tis", "twas": "twas", "til": "till", "cause": "because", "bout": "about",
    "round": "round",
}  # fmt: skip
_SIGN_NAMES = {
    "&": "and", "+": "plus", "=": "equals", "×": "times", "*": "times", "÷": "divided by", "/": "divided by",
    "±": "plus or minus", "≈": "about equals", "<": "less than", ">": "greater than", "≤": "at most",
    "≥": "at least", "^": "to the power of", "-": "minus", "−": "minus", "%": "percent", "$": "dollars",
    "£": "pounds", "€": "euros", "¥": "yen", "₹": "rupees", "°": "degrees", "§": "section", "№": "number",
    "²": "squared", "³": "cubed",
}  # fmt: skip


@dataclass(frozen=True)
class Token:
    """A lower-case spoken word or one of the pauses , . ? ! with the characters it was written in."""

    text: str
    start: int
    end: int

    @property
    def is_end(self) -> bool:
        """Whether a sentence ends with this token."""
        return self.text in SENTENCE_ENDS

    @property
    def is_pause(self) -> bool:
        return self.text == COMMA or self.is_end


class Normalizer:
    """Reads text from left to right, form by form."""

    def __init__(self, lexicon: Lexicon) -> None:
        numbers = Numbers()
        self._lexicon = lexicon
        self._numbers = numbers
        self._spelling = Spelling(lexicon, numbers)
        self._roman = RomanNumerals(numbers)
        self._readers: dict[str, Reader] = {
            **NumberForms(numbers, self._spelling).readers,
            "word": self._word,
            "mixed": lambda match: self._spelling.parts(as_ascii(match[0])),
            "dotted": self._dotted,
            "clipped": lambda match: [_CLIPPED[match[0][1:].lower()]],
            "phrase": lambda match: PHRASES[match[0]].split(),
            "url": self._address,
            "email": self._address,
            "domain": self._address,
            "range": lambda match: ["to"],
            "per": lambda match: ["per"],
            "hash": lambda match: ["number" if match.string[match.end()].isdigit() else "hashtag"],
            "at": lambda match: ["at"],
            "sign": lambda match: _SIGN_NAMES[match[0].strip()].split(),
            "pause": lambda match: [COMMA],
            "end": self._end,
        }

    def normalize(self, text: str) -> Iterator[Token]:
        """Spoken words and pauses in the order of the text, as they are asked for."""
        flat = flatten(text)
        waiting: Token | None = (
            None  # an "a", until it is known whether a word follows: else it is the letter
        )
        for token in self._tokens(flat):
            if waiting:
                if token.text == COMMA and flat[token.start] in _OPENING:
                    continue
                yield replace(waiting, text=LETTER_A) if token.is_pause else waiting
            waiting = token if token.text == "a" else None
            if not waiting:
                yield token
        if waiting:
            yield replace(waiting, text=LETTER_A)

    def _tokens(self, flat: str) -> Iterator[Token]:
        taken = -1  # a full stop that belonged to the abbreviation before it
        for match in PATTERN.finditer(flat):
            form, (start, end) = match.lastgroup or "", match.span()
            if form == "endless":
                yield from self._endless(match)
                continue
            if start == taken and match[0] == PERIOD:
                continue
            for word in self._readers[form](match):
                yield Token(word, start, end)
            stop = _stop_after(match, form)
            if stop is not None:
                taken = stop if stop >= end else -1
                if stop >= 0 and _may_end(match, form) and _opens_sentence(flat, stop + 1):
                    yield Token(PERIOD, stop, stop + 1)

    def _endless(self, match: Match) -> Iterator[Token]:
        """Digit by digit, with a pause after every third."""
        for offset, digit in enumerate(match[0]):
            place = match.start() + offset
            if offset and offset % _DIGITS_PER_GROUP == 0:
                yield Token(COMMA, place, place)
            yield Token(self._numbers.digits(digit)[0], place, place + 1)

    def _word(self, match: Match) -> list[str]:
        written = match[0]
        abbreviation = _abbreviation(match)
        if abbreviation:
            return abbreviation.words.split()
        if written.islower() or (len(written) == 1 and written not in "IVX"):
            return self._plain(written, match)
        before = _word_before(match)
        numeral = self._roman.read(written, before) if before else []
        if numeral:
            return numeral
        if _CAPITALS.fullmatch(written):
            return self._spelling.capitals(written, _is_shouted(match, before))
        if _INNER_CAPITAL.search(written) and written.lower() not in self._lexicon:
            return self._spelling.parts(as_ascii(written))
        return self._plain(written, match)

    def _plain(self, written: str, match: Match) -> list[str]:
        word = as_ascii(written).lower()
        if written == "A" and _is_letter(match):
            return [LETTER_A]
        is_spelled = word not in self._lexicon and _CONSONANTS.fullmatch(word) and not _DOUBLED.search(word)
        return self._spelling.letters(word) if is_spelled else [word]

    def _dotted(self, match: Match) -> list[str]:
        known = DOTTED.get(match[0].lower())
        return known.split() if known else self._spelling.letters(as_ascii(match[0].replace(".", "")))

    def _address(self, match: Match) -> list[str]:
        return self._spelling.address(as_ascii(_PROTOCOL.sub("", match[0]).rstrip("/")))

    def _end(self, match: Match) -> list[str]:
        written = match[0]
        if "?" in written or "？" in written:
            return [QUESTION]
        if "!" in written or "！" in written:
            return [EXCLAMATION]
        following = match.string[match.end() : match.end() + 2].strip()
        if written == PERIOD and _names_a_file(match):
            return ["dot"]
        return [COMMA if _ELLIPSIS.match(written) and following[:1].islower() else PERIOD]


def _abbreviation(match: Match) -> Abbreviation | None:
    """What a word abbreviates, if it does so here."""
    found = ABBREVIATIONS.get(match[0])
    if found is None:
        return None
    has_stop = match.string.startswith(".", match.end())
    if found.needs_stop and not has_stop:
        return None
    after = _word_after(match.string, match.end() + has_stop)
    if found.stop is Stop.BEFORE_NUMBER:
        return found if after.isdigit() else None
    if found.needs_stop and match[0].islower() and _opens_sentence(match.string, match.end() + 1):
        return None  # a word that ends its sentence ("the max.")
    is_last = not after[:1].isupper() or after in SENTENCE_STARTERS
    if match[0] in AFTER_A_NAME and is_last and _word_before(match)[:1].isupper():
        return Abbreviation(AFTER_A_NAME[match[0]], Stop.MAY_END, needs_stop=False)
    return found


def _stop_after(match: Match, form: str) -> int | None:
    """Where the full stop stands that belongs to the form itself; None if there is none."""
    text, end = match.string, match.end()
    if form in ("dotted", "clock", "day_month", "phrase") and match[0].endswith("."):
        return end - 1
    if not text.startswith(".", end):
        return None
    if form == "word":
        is_initial = len(match[0]) == 1 and match[0].isupper() and _is_initial(match)
        return end if is_initial or _abbreviation(match) else None
    after = text[end + 1 : end + 3].lstrip()[:1]
    return end if form == "measure" and (after.islower() or after in ",;") else None


def _may_end(match: Match, form: str) -> bool:
    if form != "word":
        return True
    abbreviation = _abbreviation(match)
    return abbreviation is not None and abbreviation.stop is Stop.MAY_END


def _is_initial(match: Match) -> bool:
    """Whether a capital with a full stop abbreviates a name ("J. Smith"), rather than ending a sentence."""
    if not _INITIAL.match(match.string, match.end()):
        return False
    before = _word_before(match)
    return (
        match[0] != "I"
        and (not before or before[0].isupper())
        and not _opens_sentence(match.string, match.end() + 1)
    )


def _opens_sentence(text: str, place: int) -> bool:
    """Whether nothing follows, or a word that usually opens a sentence."""
    after = _word_after(text, place)
    return after in SENTENCE_STARTERS or (not after and _NOTHING_LEFT.match(text, place) is not None)


def _word_after(text: str, place: int) -> str:
    """The word or digit that follows, over spaces, quotes and opening brackets; "" if something else does."""
    match = _NEXT_WORD.match(text, place)
    return match[1] if match else ""


def _word_before(match: Match) -> str:
    found = _WORD_BEFORE.search(match.string[max(0, match.start() - _CONTEXT) : match.start()])
    return found[1] if found else ""


def _is_letter(match: Match) -> bool:
    """Whether a capital A is the letter: a grade, or the first of several letters."""
    after = _word_after(match.string, match.end())
    return _word_before(match) in _GRADED or (len(after) == 1 and after.isupper() and after != "I")


def _is_shouted(match: Match, before: str) -> bool:
    """Whether a neighbour is in capitals too."""
    after = _word_after(match.string, match.end())
    return any(len(word) > 1 and word.isupper() for word in (before, after))


def _names_a_file(match: Match) -> bool:
    """Whether a full stop stands inside a name, as in "notes.txt"."""
    text, start, end = match.string, match.start(), match.end()
    return start > 0 and text[start - 1].isalnum() and _FILE_ENDING.match(text, end) is not None
