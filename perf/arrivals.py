"""Requests that wait for nobody: when each arrives, and what it asks for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

import numpy as np

from perf.texts import TEXTS

_SHORT = 52
"""Characters of a short text at most: about 2.6 s of speech."""


class Spacing(StrEnum):
    """How requests follow each other."""

    POISSON = "poisson"
    """Each without regard to the others, as many people ask."""
    EVEN = "even"
    """At equal distances, as Du et al. 2021 measure (section 3.2.1)."""


class Length(StrEnum):
    """How much is said: about 2.6, 4.3 and 7 s of speech, and all of these (Du et al. 2021, section 3.1)."""

    SHORT = "short"
    MEDIUM = "medium"
    LONG = "long"
    MIXED = "mixed"

    @property
    def texts(self) -> tuple[str, ...]:
        """Of mixed ones as many short as medium and long ones are drawn."""
        short = tuple(text for text in TEXTS if len(text) <= _SHORT)
        medium = tuple(text for text in TEXTS if len(text) > _SHORT)
        long = tuple(f"{one} {other}" for (one, _), other in zip(pairwise(medium), short, strict=False))
        count = min(map(len, (short, medium, long)))
        return {
            Length.SHORT: short,
            Length.MEDIUM: medium,
            Length.LONG: long,
            Length.MIXED: short[:count] + medium[:count] + long[:count],
        }[self]


@dataclass(frozen=True)
class Arrival:
    """One request: seconds since the load began, the index of its text, the seed of its draws."""

    at_s: float
    text: int
    seed: int


def arrivals(
    rate: float, seconds: float, spacing: Spacing, num_texts: int, num_seeds: int, part: int
) -> list[Arrival]:
    """The requests of one part of a load, one at least: the same for whoever asks again.

    Args:
        rate: requests a second.
        num_seeds: that each text is spoken with.
        part: of the load; each has times of its own.
    """
    draw = np.random.default_rng((part, round(1e3 * rate)))
    count = max(1, round(rate * seconds))
    if spacing is Spacing.EVEN:
        times = np.arange(count) / rate
    else:
        # As many as the rate brings on the average, at times that do not regard each other.
        times = np.sort(draw.uniform(0.0, count / rate, count))
    texts, seeds = draw.integers(num_texts, size=count), draw.integers(num_seeds, size=count)
    return [
        Arrival(float(at), int(text), int(seed)) for at, text, seed in zip(times, texts, seeds, strict=True)
    ]
