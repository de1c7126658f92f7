"""A mean of what is measured again and again, on a machine whose speed wanders."""

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
