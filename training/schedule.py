"""Learning rate: linear warm-up, then a cosine to a twentieth."""

from __future__ import annotations

import math

import torch


def set_learning_rate(
    optimizer: torch.optim.Optimizer, peak: float, step: int, steps: int, warm_up: int
) -> float:
    """Sets and returns the rate of `step` (from 0) of `steps`."""
    progress = max(0, step - warm_up) / max(1, steps - warm_up)
    rate = (
        peak
        * min(1.0, (step + 1) / warm_up)
        * (0.05 + 0.95 * 0.5 * (1.0 + math.cos(math.pi * min(1.0, progress))))
    )
    for group in optimizer.param_groups:
        group["lr"] = rate
    return rate
