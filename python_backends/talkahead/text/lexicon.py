"""Pronunciations of known words, as the voices say them; `training/export_lexicon.py` writes the file."""

from __future__ import annotations

import gzip
from enum import StrEnum
from importlib.resources import files

from talkahead.text.recent_words import RECENT_WORDS

LEXICON_NAME = "lexicon.tsv.gz"


class Role(StrEnum):
    """What a word does in its sentence, as far as that changes how words are said."""

    OTHER = ""
    VERB = "verb"


class Lexicon:
    """Lower-case words to ARPAbet symbols, in memory (about 124,000 words)."""

    def __init__(self) -> None:
        content = gzip.decompress((files("talkahead.text") / LEXICON_NAME).read_bytes()).decode()
        rows = (line.split("\t", 1) for line in content.splitlines() if line[0] != "#")
        self._entries = RECENT_WORDS | {row[0]: row[1] for row in rows}

    def __contains__(self, word: str) -> bool:
        return word in self._entries

    def is_homograph(self, word: str) -> bool:
        """Whether the word is said in another way as a verb."""
        return "\t" in self._entries.get(word, "")

    def pronounce(self, word: str, role: Role = Role.OTHER) -> tuple[str, ...]:
        """ARPAbet symbols of a word; none if it is not in the lexicon."""
        plain, _, verb = self._entries.get(word, "").partition("\t")
        return tuple((verb if verb and role is Role.VERB else plain).split())
