"""Speech that is not over before it has begun, where a checkpoint's own code draws so many tokens at least.

Shapes: B rows, N nodes, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class NoEarlyEnd:
    """`AllowedTokens`: of the first `least` tokens of a segment, none is `eos`."""

    least: int
    eos: int

    def apply(self, logits: Tensor, positions: Tensor) -> Tensor:
        is_early = positions < self.least
        logits[..., self.eos] = torch.where(is_early, -torch.inf, logits[..., self.eos])
        return logits
