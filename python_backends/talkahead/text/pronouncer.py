"""Words to phonemes: the lexicon, then the word's parts, then letter to sound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType

from talkahead.text.homographs import role_of, sense_of
from talkahead.text.letter_to_sound import LetterToSound
from talkahead.text.lexicon import Lexicon, Role
from talkahead.text.symbols import STRESSES, SYMBOL_IDS, VOWELS

_CACHED_WORDS = 50_000
_THE_BEFORE_VOWEL = (SYMBOL_IDS["DH"], SYMBOL_IDS["IY0"])
_VOWEL_IDS = frozenset(SYMBOL_IDS[vowel + stress] for vowel in VOWELS for stress in STRESSES)


class Pronouncer:
    """Lower-case spoken words to symbol ids; remembers the latest words."""

    def __init__(self, lexicon: Lexicon) -> None:
        self._lexicon = lexicon
        self._letters = LetterToSound()
        self._remembered = lru_cache(_CACHED_WORDS)(self._pronounce)

    def pronounce_all(
        self, words: Sequence[str], given: Mapping[int, Sequence[str]] = MappingProxyType({})
    ) -> list[tuple[int, ...]]:
        """Symbol ids of each word or pause of a sentence; words may depend on their neighbours.

        Args:
            given: phonemes of the words, by index, that are not to be looked up.
        """
        spoken = [self.pronounce(words, index) for index in range(len(words))]
        for index, phonemes in given.items():
            spoken[index] = tuple(SYMBOL_IDS[phoneme] for phoneme in phonemes)
        for index, word in enumerate(words[:-1]):
            if word == "the" and index not in given and spoken[index + 1][0] in _VOWEL_IDS:
                spoken[index] = _THE_BEFORE_VOWEL
        return spoken

    def pronounce(self, words: Sequence[str], index: int) -> tuple[int, ...]:
        """Symbol ids of words[index], at least one."""
        word = words[index]
        sense = sense_of(words, index)
        if sense:
            return tuple(SYMBOL_IDS[phoneme] for phoneme in sense.split())
        role = role_of(words, index) if self._lexicon.is_homograph(word) else Role.OTHER
        return self._remembered(word, role)

    def _pronounce(self, word: str, role: Role) -> tuple[int, ...]:
        if word in SYMBOL_IDS:  # a pause; phonemes are written in capitals
            return (SYMBOL_IDS[word],)
        return tuple(SYMBOL_IDS[phoneme] for phoneme in self._phonemes(word, role) or self._spelled(word))

    def _phonemes(self, word: str, role: Role = Role.OTHER) -> tuple[str, ...]:
        known = self._lexicon.pronounce(word, role)
        if known:
            return known
        stem, apostrophe, ending = word.rpartition("'")
        if not apostrophe:
            return self._letters.pronounce(word)
        before = self._phonemes(stem, role) if stem else ()
        return before + (sibilant(before) if ending == "s" else self._phonemes(ending) if ending else ())

    def _spelled(self, word: str) -> tuple[str, ...]:
        return tuple(phoneme for letter in word for phoneme in self._lexicon.pronounce(letter))


def sibilant(phonemes: tuple[str, ...]) -> tuple[str, ...]:
    """How the ending -s sounds after these phonemes."""
    last = phonemes[-1] if phonemes else ""
    if last in ("S", "Z", "SH", "ZH", "CH", "JH"):
        return ("AH0", "Z")
    return ("S",) if last in ("P", "T", "K", "F", "TH") else ("Z",)
