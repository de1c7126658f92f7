"""Learning rate: linear warm-up, a plateau, then a straight line down to a fiftieth.

A run can be ended early or made longer at any point of the plateau, unlike a cosine's (Hägele et al. 2024).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

_LAST = 0.02


@dataclass(frozen=True)
class Schedule:
    """Learning rate by step, of `steps`; the last `decay` share of them is the way down."""

    peak: float
    steps: int
    warm_up: int
    decay: float

    def rate(self, step: int) -> float:
        left = (self.steps - step) / max(1.0, self.decay * self.steps)
        return self.peak * min(1.0, (step + 1) / self.warm_up, max(_LAST, left))

    def apply(self, optimizer: torch.optim.Optimizer, step: int) -> None:
        for group in optimizer.param_groups:
            group["lr"] = self.rate(step)
