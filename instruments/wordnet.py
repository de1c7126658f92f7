"""WordNet's words (Debian `wordnet-base`): glosses, and the lemmas that name people, places and things."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

FOLDER = Path("/usr/share/wordnet")
_PARTS = ("noun", "verb", "adj", "adv")
# Lexicographer files of wordnet(5WN): artefacts, food, places, people.
_THINGS, _FOOD, _PLACES, _PEOPLE = "06", "13", "15", "18"


def _lines(part: str) -> Iterator[str]:
    path = FOLDER / f"data.{part}"
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing; get it with: apt-get install wordnet-base")
    for line in path.read_text(encoding="latin-1").splitlines():
        if not line.startswith("  ") and " | " in line:
            yield line


def glosses() -> Iterator[str]:
    """Definition and examples of each of the 117,000 synonym sets."""
    for part in _PARTS:
        for line in _lines(part):
            yield line.split(" | ", 1)[1].strip()


def _lemmas(files: tuple[str, ...], shape: str) -> tuple[str, ...]:
    """Lemmas of the nouns of some lexicographer files that match a shape, each once."""
    found: dict[str, None] = {}
    for line in _lines("noun"):
        _, file, _, size, *rest = line.split(" ")
        if file in files:
            lemmas = rest[: 2 * int(size, 16) : 2]
            found.update((lemma.replace("_", " "), None) for lemma in lemmas if re.fullmatch(shape, lemma))
    return tuple(found)


@cache
def people() -> tuple[str, ...]:
    """Names of people, first and last: 2,000 or so."""
    return _lemmas((_PEOPLE,), r"[A-Z][a-z]+_[A-Z][a-z]+")


@cache
def places() -> tuple[str, ...]:
    """Names of cities, countries, rivers of one word."""
    return _lemmas((_PLACES,), r"[A-Z][a-z]{2,}")


@cache
def common_nouns() -> tuple[str, ...]:
    """Things that one can hold or eat, one word each."""
    return _lemmas((_THINGS, _FOOD), r"[a-z]{3,9}")
