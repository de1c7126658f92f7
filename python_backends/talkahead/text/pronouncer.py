"""Words to phonemes: the lexicon, then the word's parts, then letter to sound."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from talkahead.text.homographs import role_of
from talkahead.text.letter_to_sound import LetterToSound
from talkahead.text.lexicon import Lexicon, Role
from talkahead.text.symbols import PAUSES, STRESSES, SYMBOL_IDS, VOWELS

_CACHED_WORDS = 50_000
_THE_BEFORE_VOWEL = (SYMBOL_IDS["DH"], SYMBOL_IDS["IY0"])
_VOWEL_IDS = frozenset(SYMBOL_IDS[vowel + stress] for vowel in VOWELS for stress in STRESSES)


class Pronouncer:
    """Lower-case spoken words to symbol ids; remembers the latest words."""

    def __init__(self) -> None:
        self.lexicon = Lexicon()
        self._letters = LetterToSound()
        self.pronounce = lru_cache(_CACHED_WORDS)(self._pronounce)

    def pronounce_all(self, words: Sequence[str]) -> list[tuple[int, ...]]:
        """Symbol ids of each word of a sentence, where words depend on their neighbours; pauses are words too."""
        spoken = [
            self.pronounce(word, role_of(words, index)) if self.lexicon.is_homograph(word) else self.pronounce(word)
            for index, word in enumerate(words)
        ]
        for index, word in enumerate(words[:-1]):
            if word == "the" and spoken[index + 1][:1] and spoken[index + 1][0] in _VOWEL_IDS:
                spoken[index] = _THE_BEFORE_VOWEL
        return spoken

    def _pronounce(self, word: str, role: Role = Role.OTHER) -> tuple[int, ...]:
        """Symbol ids of one word or pause; none for a word of apostrophes."""
        if word in PAUSES:
            return (SYMBOL_IDS[word],)
        return tuple(SYMBOL_IDS[phoneme] for phoneme in self._phonemes(word, role))

    def _phonemes(self, word: str, role: Role) -> tuple[str, ...]:
        known = self.lexicon.pronounce(word, role)
        if known:
            return known
        stem, apostrophe, ending = word.rpartition("'")
        if apostrophe:
            return self._with_ending(self._phonemes(stem, role), ending) if stem else self._phonemes(ending, role)
        return self._letters.pronounce(word)

    def _with_ending(self, stem: tuple[str, ...], ending: str) -> tuple[str, ...]:
        return stem + (sibilant(stem) if ending == "s" else self._phonemes(ending, Role.OTHER) if ending else ())


def sibilant(phonemes: tuple[str, ...]) -> tuple[str, ...]:
    """How the ending -s sounds after these phonemes."""
    last = phonemes[-1] if phonemes else ""
    if last in ("S", "Z", "SH", "ZH", "CH", "JH"):
        return ("AH0", "Z")
    return ("S",) if last in ("P", "T", "K", "F", "TH") else ("Z",)
