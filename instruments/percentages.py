"""Shares in percent, and how sure a difference between two speakers is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
from talkahead.draft_training.bootstrap import bootstrap_interval


def percent(flags: Iterable[bool]) -> float:
    return 100 * float(np.mean(list(flags)))


@dataclass(frozen=True)
class Difference:
    """Of a figure between two speakers of the same sentences, with its 95 % interval; sentences are drawn
    again in pairs."""

    value: float
    low: float
    high: float

    @classmethod
    def of_percents(cls, differences: Sequence[float], out_of: Sequence[int]) -> Self:
        """The sum of each sentence's differences over the sum of what they are out of, in points."""
        more, total = np.array(differences), np.array(out_of)

        def points(pick: Sequence[int]) -> float:
            return 100 * float(more[pick].sum() / total[pick].sum())

        return cls(points(range(len(total))), *bootstrap_interval(points, len(total)))

    @classmethod
    def of_means(cls, differences: npt.ArrayLike) -> Self:
        """The mean of each sentence's difference."""
        more = np.array(differences)

        def mean(pick: Sequence[int]) -> float:
            return float(more[pick].mean())

        return cls(mean(range(len(more))), *bootstrap_interval(mean, len(more)))

    def __str__(self) -> str:
        return f"{self.value:+.2f} ({self.low:+.2f} to {self.high:+.2f})"
