"""Means of what is measured again and again, on a machine whose speed wanders."""

from __future__ import annotations

from dataclasses import dataclass

ENOUGH = 8
"""Observations without which an estimate decides nothing."""


@dataclass
class RunningMean:
    """Exact at first, it forgets what is older than `memory` values; `count`: what the first one is worth."""

    memory: int
    value: float = 0.0
    count: int = 0

    @property
    def is_known(self) -> bool:
        return self.count >= ENOUGH

    def add(self, value: float, times: int = 1) -> None:
        self.count = min(self.count + times, self.memory)
        self.value += (value - self.value) * min(times / self.count, 1.0)


@dataclass
class RunningRatio:
    """One sum over another, such as seconds by frames; both forget what is older than `memory` additions."""

    memory: int
    _over: float = 0.0
    _under: float = 0.0

    @property
    def value(self) -> float:
        """0 while nothing is known."""
        return self._over / self._under if self._under else 0.0

    def add(self, over: float, under: float) -> None:
        kept = 1.0 - 1.0 / self.memory
        self._over = kept * self._over + over
        self._under = kept * self._under + under
