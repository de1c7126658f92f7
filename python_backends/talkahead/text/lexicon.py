"""Pronunciations of known words: gruut's English lexicon (MIT, from CMUdict), read once, spelled in ARPAbet."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import cache
from importlib.resources import as_file, files

ARPABET: dict[str, str] = {
    "ɑ": "AA", "æ": "AE", "ʌ": "AH", "ə": "AH", "ɔ": "AO", "aʊ": "AW", "aɪ": "AY", "ɛ": "EH", "ɚ": "ER",
    "eɪ": "EY", "ɪ": "IH", "i": "IY", "oʊ": "OW", "ɔɪ": "OY", "ʊ": "UH", "u": "UW",
    "b": "B", "t͡ʃ": "CH", "d": "D", "ð": "DH", "f": "F", "ɡ": "G", "h": "HH", "d͡ʒ": "JH", "k": "K", "l": "L",
    "m": "M", "n": "N", "ŋ": "NG", "p": "P", "ɹ": "R", "s": "S", "ʃ": "SH", "t": "T", "θ": "TH", "v": "V",
    "w": "W", "j": "Y", "z": "Z", "ʒ": "ZH",
}  # fmt: skip
_STRESS = {"ˈ": "1", "ˌ": "2"}


@cache
def arpabet(ipa: str) -> str:
    """One ARPAbet symbol for one of the lexicon's IPA phonemes ("ˈoʊ" -> "OW1")."""
    stress = _STRESS.get(ipa[0], "0")
    symbol = ARPABET[ipa.lstrip("ˈˌ")]
    return symbol + stress if symbol[0] in "AEIOU" else symbol


class Lexicon:
    """Words to pronunciations, in memory (about 125,000 words)."""

    def __init__(self) -> None:
        self._entries: dict[str, dict[str, str]] = {}
        for word, role, phonemes in _rows():
            self._entries.setdefault(word, {}).setdefault(role, phonemes)

    def __contains__(self, word: str) -> bool:
        return word in self._entries

    def pronounce(self, word: str, role: str = "") -> tuple[str, ...] | None:
        """ARPAbet symbols of a lower-case word; `role` picks among homographs ("gruut:VBD"), else the first."""
        roles = self._entries.get(word)
        if roles is None:
            return None
        phonemes = roles.get(role) or next(iter(roles.values()))
        return tuple(arpabet(ipa) for ipa in phonemes.split())


def _rows() -> list[tuple[str, str, str]]:
    """(word, role, phonemes) in the lexicon's order of preference."""
    with as_file(files("gruut_lang_en") / "lexicon.db") as path, closing(sqlite3.connect(path)) as database:
        query = "SELECT word, role, phonemes FROM word_phonemes ORDER BY id"
        return database.execute(query).fetchall()
