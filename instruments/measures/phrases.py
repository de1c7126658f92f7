"""Phrases that were skipped or said again: what was heard beside what was asked.

A phrase is two or more successive words. A recogniser mishears words, so that a phrase counts only where most
of its letters are missing in what was heard, or what was heard is longer by most of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from rapidfuzz.distance import Levenshtein

from instruments.measures.word_errors import words_of

PHRASE_WORDS = 2
_MOST = 0.5


@dataclass(frozen=True)
class Phrases:
    """The words of each phrase that was left out, or that was said again."""

    skipped: tuple[str, ...]
    repeated: tuple[str, ...]


def check_phrases(asked: str, heard: str) -> Phrases:
    """Of a text and what was heard of it."""
    wanted, found = words_of(asked), words_of(heard)
    return confirmed(compare(wanted, found), wanted, found)


def confirmed(found: Phrases, asked: Sequence[str], heard: Sequence[str]) -> Phrases:
    """Those phrases of which most letters are missing in what was heard, or by which it is longer."""
    text, hearing = " ".join(asked), " ".join(heard)
    changes = Levenshtein.editops(text, hearing)
    missing = {change.src_pos for change in changes if change.tag == "delete"}
    # A word misheard as another puts letters in and takes others out; what is said again adds words.
    extra = len(hearing) - len(text) if len(heard) > len(asked) else 0
    return Phrases(
        tuple(phrase for phrase in found.skipped if _share_missing(phrase, text, missing) >= _MOST),
        tuple(phrase for phrase in found.repeated if extra >= _MOST * len(phrase)),
    )


def _share_missing(phrase: str, text: str, missing: set[int]) -> float:
    """Of the letters of the phrase, where it stands in the text and misses most."""
    starts = (match.start() for match in re.finditer(f"(?={re.escape(phrase)})", text))
    return max(len(missing & {*range(start, start + len(phrase))}) / len(phrase) for start in starts)


def compare(asked: Sequence[str], said: Sequence[str]) -> Phrases:
    """Phrases of `asked` that are missing in `said`, and those that `said` has once more."""
    blocks = Levenshtein.editops(asked, said).as_matching_blocks()
    ends = [(0, 0), *((block.a + block.size, block.b + block.size) for block in blocks)]
    missing, extra = [], []
    for (asked_end, said_end), block in zip(ends[:-1], blocks, strict=True):
        missing.append(asked[asked_end : block.a])
        extra.append(_longest_phrase(asked, said[said_end : block.b]))
    return Phrases(_phrases(missing), _phrases(extra))


def _longest_phrase(asked: Sequence[str], words: Sequence[str]) -> Sequence[str]:
    """The most successive words of the text among others, which may have been heard in a breath."""
    match = SequenceMatcher(None, asked, words, autojunk=False).find_longest_match()
    return asked[match.a : match.a + match.size]


def _phrases(stretches: Sequence[Sequence[str]]) -> tuple[str, ...]:
    return tuple(" ".join(words) for words in stretches if len(words) >= PHRASE_WORDS)
