"""Sentences made from patterns: what people say to a voice agent, and what it answers.

WordNet's definitions teach words, not conversation. A pattern (`patterns.toml`) is a format string; what its
fields stand for is drawn anew each time, so that few sentences are alike.
"""

from __future__ import annotations

import random
import re
import string
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from instruments.wordnet import common_nouns, people, places

CATEGORIES = ("dialogue", "names", "numbers", "replies", "spelling")
_TOLD_APART = tuple(category for category in CATEGORIES if category != "replies")
"""Replies are too short for it: whatever begins with "on" may be "On {day}."."""
_INITIALS, _CODES = 4_000, 4_000


@cache
def _material() -> Mapping[str, Mapping[str, Any]]:
    return tomllib.loads(Path(__file__).with_name("patterns.toml").read_text(encoding="utf-8"))


@cache
def _words() -> Mapping[str, Sequence[str]]:
    return {
        **_material()["words"],
        **{"person": people(), "place": places(), "noun": common_nouns()},
        **{"letter": string.ascii_uppercase, "initials": _initials(), "code": _codes()},
    }


def _initials() -> Sequence[str]:
    draw = random.Random("initials")
    return [
        "".join(draw.choices(string.ascii_uppercase, k=draw.choice((2, 3, 3, 3, 4))))
        for _ in range(_INITIALS)
    ]


def _codes() -> Sequence[str]:
    draw = random.Random("codes")
    return ["".join(draw.choices(string.ascii_uppercase + string.digits, k=4)) for _ in range(_CODES)]


@cache
def _fields_of(pattern: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for _, name, _, _ in string.Formatter().parse(pattern) if name))


def _value(field: str, draw: random.Random) -> str | int:
    kind = re.sub(r"\d$", "", field)
    bounds = _material()["numbers"].get(kind)
    return draw.randint(*bounds) if bounds else draw.choice(_words()[kind])


@cache
def _recogniser() -> re.Pattern[str]:
    """One alternative for each pattern, as a group of its own, in the order of `_patterns`."""
    return re.compile("|".join(f"({_expression(pattern)})" for pattern in _patterns()), re.IGNORECASE)


@cache
def _patterns() -> tuple[str, ...]:
    return tuple(pattern for category in _TOLD_APART for pattern in _material()["patterns"][category])


def _expression(pattern: str) -> str:
    parts = string.Formatter().parse(pattern)
    return "".join(re.escape(literal) + (".+" if name else "") for literal, name, _, _ in parts)


def pattern_of(sentence: str) -> str | None:
    """The pattern that a sentence may have been made from; None where it fits none."""
    found = _recogniser().fullmatch(sentence)
    return _patterns()[found.lastindex - 1] if found and found.lastindex else None


def made_up(category: str, count: int, seed: int) -> Iterator[str]:
    """`count` sentences of one of `CATEGORIES`; the same ones for a seed."""
    draw = random.Random(seed)
    patterns = _material()["patterns"][category]
    for _ in range(count):
        pattern = draw.choice(patterns)
        sentence = pattern.format(**{field: _value(field, draw) for field in _fields_of(pattern)})
        yield sentence[0].upper() + sentence[1:]
