"""Shares in percent, and how sure a difference between two speakers is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np


def percent(flags: Iterable[bool]) -> float:
    return 100 * float(np.mean(list(flags)))


def bootstrap_interval(
    differences: Sequence[int], words: Sequence[int], draws: int = 2000
) -> tuple[float, float]:
    """95 % interval of the sum of differences over that of words, in points; sentences drawn in pairs."""
    picks = np.random.default_rng(0).integers(len(words), size=(draws, len(words)))
    points = 100 * np.array(differences)[picks].sum(1) / np.array(words)[picks].sum(1)
    low, high = np.percentile(points, [2.5, 97.5])
    return float(low), float(high)
