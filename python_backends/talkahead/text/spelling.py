"""Words that are not written as words: acronyms, names with digits and capitals inside, addresses."""

from __future__ import annotations

import re

from talkahead.text.abbreviations import said_for
from talkahead.text.lexicon import Lexicon
from talkahead.text.number_words import Numbers, is_year
from talkahead.text.word_list import word_list

LETTER_A = "ay"
"""The name of the letter, as the voices know it; "a" is the article."""
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[A-Z]|\d+|[^A-Za-z\d]")
_ACRONYM = re.compile(r"([A-Z]{2,})('s|s|'S)?")
_VOWELS = frozenset("aeiouy")
_READ_AS_WORDS = word_list("OK NASA NATO AIDS RAM ROM PIN SIM LAN LED COVID JSON GIF JPEG ZIP RAID")
_ALWAYS_SPELLED = word_list(
    """IT US UN UK EU PM AM TV ID IQ PC AI HIV MIT DIY VIP IRA USA ATM EST EDT CST CDT MST MDT PST PDT ET CT
    MT PT"""
)
_SHORT_WORDS = word_list("my go we to do me by on of up no so at be is he")
"""Of two letters, and words in addresses too."""
_READ_AS_LETTERS = word_list("exe pdf")
_MAX_LETTERS_SPELLED = 5
_DIGITS = re.compile(r"\d+")
_CODE = 10
"""Characters from which on a name with several numbers is read digit by digit, as what tracks a parcel."""
_SHORT = 3
_SYMBOL_NAMES = {
    ".": "dot", "-": "dash", "_": "underscore", "/": "slash", "?": "question mark", "=": "equals", "&": "and",
    "#": "hash", "%": "percent", "+": "plus", "~": "tilde", ":": "colon", "@": "at", "*": "star",
}  # fmt: skip


class Spelling:
    """Reads what the lexicon cannot, letter by letter or part by part."""

    def __init__(self, lexicon: Lexicon, numbers: Numbers) -> None:
        self._lexicon = lexicon
        self._numbers = numbers

    def capitals(self, word: str, is_shouted: bool) -> list[str]:
        """A word of capitals: an acronym said as a word, a shouted word, or letters."""
        match = _ACRONYM.fullmatch(word)
        stem, ending = (match[1], match[2] or "") if match else (word, "")
        if stem in _READ_AS_WORDS or self._is_word(stem, is_shouted):
            return [(stem + ending).lower()]
        letters = self.letters(stem)
        return [*letters[:-1], letters[-1] + "'s"] if ending else letters

    def _is_word(self, stem: str, is_shouted: bool) -> bool:
        is_known, has_vowel = stem.lower() in self._lexicon, not _VOWELS.isdisjoint(stem.lower())
        if len(stem) <= _SHORT:
            return is_known and has_vowel and is_shouted and stem not in _ALWAYS_SPELLED
        return is_known or (has_vowel and len(stem) > _MAX_LETTERS_SPELLED)

    def letters(self, text: str) -> list[str]:
        """The names of the letters of `text`."""
        return [LETTER_A if letter in "aA" else letter.lower() for letter in text]

    def parts(self, text: str) -> list[str]:
        """A name of letters, digits and capitals, part by part: "H2O", "iPhone", "COVID19", "mp3"."""
        words: list[str] = []
        is_code = len(text) >= _CODE and len(_DIGITS.findall(text)) > 1
        for part in _PARTS.findall(text):
            if part.isdigit():
                words += self._numbers.digits(part) if is_code else self._numbers.pairs(part)
            elif part.isalpha():
                words += self.part(part)
        return words

    def part(self, letters: str) -> list[str]:
        """Letters as a word where they can be one, else their names."""
        word = letters.lower()
        is_word = word in self._lexicon if len(word) < _SHORT else not _VOWELS.isdisjoint(word)
        if letters.isupper() and len(letters) <= _MAX_LETTERS_SPELLED:
            return self.capitals(letters, is_shouted=False)
        return said_for(word) if is_word and len(word) > 1 else self.letters(word)

    def address(self, text: str) -> list[str]:
        """A URL, domain or e-mail address: labels as words where they are, marks by their names."""
        words: list[str] = []
        for part in _PARTS.findall(text):
            if part.isdigit():
                is_count = len(part) <= _SHORT or is_year(part)
                words += self._numbers.value(part) if is_count else self._numbers.digits(part)
            elif part.isalpha():
                words += self.label(part.lower())
            else:
                words += _SYMBOL_NAMES.get(part, "").split()
        return words

    def label(self, label: str) -> list[str]:
        """A lower-case part of an address: a word where it is one, else letters."""
        if label in _READ_AS_LETTERS:
            return self.letters(label)
        is_sayable = len(label) > _SHORT and not _VOWELS.isdisjoint(label)
        is_word = label in _SHORT_WORDS or (len(label) == _SHORT and label in self._lexicon)
        return said_for(label) if is_sayable or is_word else self.letters(label)
