"""Words to phonemes: the lexicon, then what its parts say, then letters to sound; spelled when nothing else fits."""

from __future__ import annotations

from functools import lru_cache

from talkahead.text.letter_to_sound import LetterToSound
from talkahead.text.lexicon import Lexicon
from talkahead.text.symbols import SYMBOL_IDS

_CACHED_WORDS = 50_000


class Pronouncer:
    """Lower-case spoken words to symbol ids; remembers the latest words."""

    def __init__(self) -> None:
        self._lexicon = Lexicon()
        self._letters = LetterToSound()
        self.pronounce = lru_cache(_CACHED_WORDS)(self._pronounce)

    def _pronounce(self, word: str) -> tuple[int, ...]:
        """Symbol ids of one word."""
        phonemes = self._lexicon.pronounce(word) or self._possessive(word) or self._letters.pronounce(word)
        return tuple(SYMBOL_IDS[phoneme] for phoneme in phonemes)

    def _possessive(self, word: str) -> tuple[str, ...] | None:
        stem, mark, ending = word.rpartition("'")
        if not mark or ending not in ("s", ""):
            return None
        phonemes = self._lexicon.pronounce(stem) or self._letters.pronounce(stem)
        return phonemes + plural_ending(phonemes) if ending else phonemes


def plural_ending(phonemes: tuple[str, ...]) -> tuple[str, ...]:
    """How -s sounds after these phonemes."""
    last = phonemes[-1] if phonemes else ""
    if last in ("S", "Z", "SH", "ZH", "CH", "JH"):
        return ("IH0", "Z")
    return ("S",) if last in ("P", "T", "K", "F", "TH") else ("Z",)
