"""A table of what is written and what a newsreader says: nearly all must come out so, failures are shown."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from talkahead.text import SYMBOLS, TextFrontend
from talkahead.text.lexicon import Lexicon
from talkahead.text.pronouncer import Pronouncer

TABLE = Path(__file__).with_name("written_forms.tsv")
SMALLEST_TABLE = 330
DEMANDED_SHARE = 0.95
HOMOGRAPHS = "homographs"
PAUSES = ",.?!"
WITHOUT_PAUSES = str.maketrans("", "", PAUSES)


@dataclass(frozen=True)
class Row:
    """One line of the table, and what came out."""

    category: str
    written: str
    readings: tuple[str, ...]
    came_out: str

    @property
    def is_right(self) -> bool:
        return any(self._says(reading) for reading in self.readings)

    def _says(self, reading: str) -> bool:
        if any(pause in reading for pause in PAUSES):
            return reading.rstrip(".") == self.came_out.rstrip(".")
        return reading.split() == self.came_out.translate(WITHOUT_PAUSES).split()


def words_of(frontend: TextFrontend, written: str) -> str:
    return " ".join(segment.words for segment in frontend.segments(written))


def phonemes_of(words: list[str], word: str, pronouncer: Pronouncer) -> str:
    """The word and its phonemes, as the words around it ask for them."""
    symbols = pronouncer.pronounce_all(words)[words.index(word)]
    return " ".join((word, *(SYMBOLS[symbol] for symbol in symbols)))


@pytest.fixture(scope="module")
def rows(frontend: TextFrontend) -> list[Row]:
    pronouncer, found = Pronouncer(Lexicon()), []
    for line in TABLE.read_text().splitlines():
        if line.startswith("# "):
            continue
        category, written, spoken = line.split("\t")
        if category == HOMOGRAPHS:
            came_out = phonemes_of(frontend.words(written), spoken.split()[0], pronouncer)
        else:
            came_out = words_of(frontend, written)
        found.append(Row(category, written, tuple(spoken.split(" | ")), came_out))
    return found


def test_nearly_all_of_the_table_is_read_as_a_newsreader_would(rows: list[Row]) -> None:
    failures = [row for row in rows if not row.is_right]
    total, wrong = (Counter(row.category for row in part) for part in (rows, failures))
    for category, count in total.items():
        print(f"{category:24} {count - wrong[category]:3} of {count:3}")
    for row in failures:
        print(f"{row.written!r} came out as {row.came_out!r}, not {' | '.join(row.readings)!r}")
    share = 1 - len(failures) / len(rows)
    print(f"{share:.1%} of {len(rows)} rows")
    assert len(rows) >= SMALLEST_TABLE
    assert share >= DEMANDED_SHARE


def test_no_row_is_there_twice(rows: list[Row]) -> None:
    assert max(Counter((row.category, row.written) for row in rows).values()) == 1
