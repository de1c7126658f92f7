"""Written text to spoken words, each with its place in the original."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from talkahead.text.abbreviations import DOTTED, PHRASES, said_for
from talkahead.text.full_stops import (
    abbreviation,
    may_end,
    opens_sentence,
    stop_after,
)
from talkahead.text.lexicon import Lexicon
from talkahead.text.neighbours import Match, Reader, is_code, joins_both, text_before, word_after, word_before
from talkahead.text.number_forms import NumberForms
from talkahead.text.number_words import Numbers
from talkahead.text.roman import RomanNumerals
from talkahead.text.spelling import LETTER_A, Spelling
from talkahead.text.states import STATES
from talkahead.text.symbols import COMMA, EXCLAMATION, PERIOD, QUESTION
from talkahead.text.transliteration import as_ascii, flatten
from talkahead.text.units import DIRECTIONS
from talkahead.text.word_list import word_list
from talkahead.text.written_forms import INLINE_TAG, PATTERN

SENTENCE_ENDS = frozenset((PERIOD, QUESTION, EXCLAMATION))
_DIGITS_PER_GROUP, _CARD = 3, 16
_CONSONANTS = re.compile(r"[b-df-hj-np-tv-xz]{2,5}")
_DOUBLED = re.compile(r"(.)\1")
"""Marks a sound, as in "psst" and "brr", rather than letters to be named."""
_OPENING = frozenset("([{")
_OPERATORS = frozenset("+=<>×*÷^→≠≈")
_GRADED = word_list(
    "an An vitamin Vitamin plan Plan grade Grade type Type class Class option Option group Group team"
)
"""Words before the letter A."""
_INNER_CAPITAL = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]")
_SMALL_THEN_CAPITALS = re.compile(r"[a-z]{1,3}[A-Z]{2,}")
_CAPITALS = re.compile(r"[A-Z]{2,}(?:'?s)?")
_ELLIPSIS = re.compile(r"\.\.+|…")
_TAGS = 400
"""Characters looked back for what stands before tags."""
_SAID = re.compile(rf"[^\W_](?:\s|{INLINE_TAG}){{0,8}}\Z")
_PROTOCOL = re.compile(r"^https?://", re.IGNORECASE)
_CLIPPED = {
    "em": "them", "tis": "tis", "twas": "twas", "til": "till", "cause": "because", "bout": "about",
    "round": "round",
}  # fmt: skip
_KEYS = {"*": "star", "#": "pound"}
"""Of a telephone."""
_SIGN_NAMES = {
    "&": "and", "+": "plus", "=": "equals", "×": "times", "*": "times", "÷": "divided by", "/": "divided by",
    "±": "plus or minus", "≈": "about equals", "<": "less than", ">": "greater than", "≤": "at most",
    "≥": "at least", "^": "to the power of", "-": "minus", "−": "minus", "%": "percent", "$": "dollars",
    "£": "pounds", "€": "euros", "¥": "yen", "₹": "rupees", "°": "degrees", "§": "section", "№": "number",
    "²": "squared", "³": "cubed",
    "^2": "squared", "^3": "cubed", "√": "square root of", "∞": "infinity", "≠": "is not", "→": "to",
}  # fmt: skip


@dataclass(frozen=True)
class Token:
    """A lower-case spoken word or one of the pauses , . ? ! with the characters it was written in.

    The words of one written form share its characters evenly, in order; a share may be empty.
    """

    text: str
    start: int
    end: int
    phonemes: tuple[str, ...] = ()
    """As the client wrote them; none otherwise."""

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
            "plain": self._word,
            "word": self._word,
            "mixed": lambda match: self._spelling.parts(as_ascii(match[0])),
            "dotted": self._dotted,
            "fence": lambda match: [],
            "tag": lambda match: [PERIOD] if match["tg_block"] and _begins_anew(match) else [],
            "clipped": lambda match: [_CLIPPED[match[0][1:].lower()]],
            "phrase": lambda match: PHRASES[match[0]].split(),
            "url": self._address,
            "email": self._address,
            "domain": self._address,
            "file": self._address,
            "path": self._address,
            "compass": lambda match: [
                DIRECTIONS[match["co_house"] or match["co_after"] or match["co_street"]]
            ],
            "state": lambda match: STATES[match[0]].split(),
            "subreddit": lambda match: [match[0][0], "slash"],
            "range": self._range,
            "key": lambda match: [_KEYS[match[0]]],
            "hash": lambda match: ["hashtag" if match.string[match.end()].isalpha() else "number"],
            "at": lambda match: ["at"],
            "about": lambda match: ["about"],
            "bound": self._sign,
            "sign": self._sign,
            "pause": lambda match: [COMMA],
            "end": self._end,
        }

        self._expanders: dict[str, Callable[[Match], Iterator[Token]]] = {
            "endless": self._endless,
            "pronunciation": self._pronounced,
            "link": self._link,
            "heading": self._heading,
        }

    def normalize(self, text: str) -> Iterator[Token]:
        """Spoken words and pauses in the order of the text, as they are asked for."""
        flat = flatten(text)
        waiting: Token | None = None  # an "a": the letter, unless a word follows
        for token in self._tokens(flat):
            if waiting:
                if token.text == COMMA and flat[token.start] in _OPENING:
                    continue
                is_letter = token.is_pause or flat[token.start : token.start + 2].strip()[:1] in _OPERATORS
                yield replace(waiting, text=LETTER_A) if is_letter else waiting
            waiting = token if token.text == "a" else None
            if not waiting:
                yield token
        if waiting:
            yield replace(waiting, text=LETTER_A)

    def _tokens(self, flat: str) -> Iterator[Token]:
        taken = -1  # a full stop that belonged to the abbreviation before it
        for match in PATTERN.finditer(flat):
            form, (start, end) = match.lastgroup or "", match.span()
            if form in self._expanders:
                yield from self._expanders[form](match)
                continue
            if start == taken and match[0] == PERIOD:
                continue
            words = self._readers[form](match)
            for index, word in enumerate(words):
                share = (end - start) / len(words)
                yield Token(word, start + int(index * share), start + int((index + 1) * share))
            stop = stop_after(match, form)
            if stop is not None:
                taken = stop
                if may_end(match, form) and opens_sentence(flat, stop + 1):
                    yield Token(PERIOD, stop, stop + 1)

    def _pronounced(self, match: Match) -> Iterator[Token]:
        words = [token.text for token in self.normalize(match["pr_text"]) if not token.is_pause]
        yield Token(" ".join(words), *match.span(), tuple(match["pr_phonemes"].split()))

    def _link(self, match: Match) -> Iterator[Token]:
        """The tokens of its text. Where it leads is not said, but done with: from the last word on they end
        where the link ends, or a client that goes on from there would have it read out."""
        tokens = list(self._inner(match, "li_text"))
        last_word = max((index for index, token in enumerate(tokens) if not token.is_pause), default=0)
        yield from tokens[:last_word]
        for token in tokens[last_word:]:
            yield replace(token, end=match.end())

    def _inner(self, match: Match, group: str) -> Iterator[Token]:
        """The tokens of a part of a form."""
        offset = match.start(group)
        for token in self._tokens(match[group]):
            yield replace(token, start=token.start + offset, end=token.end + offset)

    def _heading(self, match: Match) -> Iterator[Token]:
        yield from self._inner(match, "he_text")
        yield Token(PERIOD, match.end(), match.end())

    def _endless(self, match: Match) -> Iterator[Token]:
        """Digit by digit, with a pause after every third, or after every fourth of a card's."""
        group = _DIGITS_PER_GROUP + (len(match[0]) == _CARD)
        for offset, digit in enumerate(match[0]):
            place = match.start() + offset
            if offset and offset % group == 0:
                yield Token(COMMA, place, place)
            yield Token(self._numbers.digits(digit)[0], place, place + 1)

    def _word(self, match: Match) -> list[str]:
        written = match[0]
        found = abbreviation(match)
        if found:
            return found.words.split()
        page = self._roman.page(written, match)
        if page:
            return page
        if written.islower() or (len(written) == 1 and written not in "IVX"):
            return self._plain(written, match)
        before = word_before(match)
        numeral = self._roman.read(written, before, word_after(match.string, match.end()))
        if numeral:
            return numeral
        if _CAPITALS.fullmatch(written):
            return self._spelling.capitals(written, _is_shouted(match, before))
        is_known = written.lower() in self._lexicon and not _SMALL_THEN_CAPITALS.fullmatch(written)
        if _INNER_CAPITAL.search(written) and not is_known:
            return self._spelling.parts(as_ascii(written))
        return self._plain(written, match)

    def _range(self, match: Match) -> list[str]:
        if is_code(match):
            return [COMMA]
        return ["and" if joins_both(match) else "to"]

    def _plain(self, written: str, match: Match) -> list[str]:
        word = as_ascii(written).lower()
        if written == "A" and _is_letter(match):
            return [LETTER_A]
        is_spelled = word not in self._lexicon and _CONSONANTS.fullmatch(word) and not _DOUBLED.search(word)
        return self._spelling.letters(word) if is_spelled else said_for(word)

    def _dotted(self, match: Match) -> list[str]:
        known = DOTTED.get(match[0].lower())
        return known.split() if known else self._spelling.letters(as_ascii(match[0].replace(".", "")))

    def _address(self, match: Match) -> list[str]:
        written = match[0].removesuffix("'s")
        words = self._spelling.address(as_ascii(_PROTOCOL.sub("", written).rstrip("/")))
        return words if written == match[0] else [*words[:-1], words[-1] + "'s"]

    def _sign(self, match: Match) -> list[str]:
        return _SIGN_NAMES[match[0].strip()].split()

    def _end(self, match: Match) -> list[str]:
        written = match[0]
        if "?" in written or "？" in written:
            return [QUESTION]
        if "!" in written or "！" in written:
            return [EXCLAMATION]
        following = match.string[match.end() : match.end() + 2].strip()
        return [COMMA if _ELLIPSIS.match(written) and following[:1].islower() else PERIOD]


def _begins_anew(match: Match) -> bool:
    """Whether a tag of HTML ends what is said before it: words do, which no pause follows already."""
    return _SAID.search(text_before(match, _TAGS)) is not None


def _is_letter(match: Match) -> bool:
    """Whether a capital A is the letter: a grade, or the first of several letters."""
    after = word_after(match.string, match.end())
    return word_before(match) in _GRADED or (len(after) == 1 and after.isupper() and after != "I")


def _is_shouted(match: Match, before: str) -> bool:
    """Whether a neighbour is in capitals too."""
    after = word_after(match.string, match.end())
    return any(len(word) > 1 and word.isupper() for word in (before, after))
