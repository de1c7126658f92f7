"""Where the rate lies that a server just holds."""

from __future__ import annotations

import math
from collections import Counter

_OUTWARD = 1.25
"""From a rate to the next where nothing beyond it is known."""
_CLOSE = 1.06
"""A rate that is held, and one that is not, between which nothing more is looked for."""
_FAILURES = 2
"""A rate may fail once for a stall of the machine."""


class LimitSearch:
    """Bisects, by ratios, between the highest rate that was held and the lowest above it that failed twice.

    Args:
        lowest, highest: requests a second, beyond which nothing is tried.
    """

    def __init__(self, lowest: float = 0.1, highest: float = 256.0) -> None:
        self._lowest, self._highest = lowest, highest
        self._held: float | None = None
        self._failures = Counter[float]()

    def add(self, rate: float, is_held: bool) -> None:
        """What came of a rate."""
        if is_held:
            self._held = max(rate, self._held or rate)
        else:
            self._failures[rate] += 1

    @property
    def rate(self) -> float | None:
        """To be tried next; None where the limit is found, or lies outside of what is tried."""
        failed = sorted(rate for rate in self._failures if self._held is None or rate > self._held)
        if not failed:
            return None if self._held is None else self._within(self._held * _OUTWARD)
        if self._failures[failed[0]] < _FAILURES:
            return failed[0]
        if self._held is None:
            return self._within(failed[0] / _OUTWARD)
        return None if failed[0] / self._held <= _CLOSE else math.sqrt(self._held * failed[0])

    def _within(self, rate: float) -> float | None:
        return rate if self._lowest <= rate <= self._highest else None
