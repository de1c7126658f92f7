"""Convolutions over frames, written as linear layers over neighbouring frames laid side by side: CPUs with
bf16 matrix units run those fastest.

Shapes: B rows, T frames, D and W numbers of a frame.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


def side_by_side(frames: Tensor, count: int) -> Tensor:
    """Each run of `count` neighbouring frames as one: [B, count - 1 + T, D] -> [B, T, count * D]."""
    length = frames.shape[1] - count + 1
    return torch.cat([frames[:, shift : shift + length] for shift in range(count)], dim=-1)


class FrameBlock(nn.Module):
    """Residual block over a frame and its neighbours, zeros beyond the edges and where `mask` [B, T, 1] is.
    [B, T, W] -> same."""

    def __init__(self, width: int, hidden: int, before: int, after: int) -> None:
        super().__init__()
        self.before, self.after = before, after
        self.norm = nn.LayerNorm(width)
        self.mix = nn.Linear(width * (before + 1 + after), hidden)
        self.out = nn.Linear(hidden, width)

    def forward(self, frames: Tensor, mask: Tensor) -> Tensor:
        padded = functional.pad(self.norm(frames) * mask, (0, 0, self.before, self.after))
        around = side_by_side(padded.to(self.mix.weight.dtype), self.before + 1 + self.after)
        change: Tensor = self.out(functional.gelu(self.mix(around), approximate="tanh"))
        return (frames + change.to(frames.dtype)) * mask


class CausalBlock(nn.Module):
    """Residual block over a frame and the `before` frames before it.

    frames [B, T, W] and what stands before them [B, before, W] -> the changed frames, and what it saw
    [B, before + T, W], whose last rows stand before the next frames.
    """

    def __init__(self, width: int, inner: int, before: int) -> None:
        super().__init__()
        self.before = before
        self.norm = nn.LayerNorm(width)
        self.mix = nn.Linear(width * (before + 1), inner)
        self.out = nn.Linear(inner, width)

    def forward(self, frames: Tensor, before: Tensor) -> tuple[Tensor, Tensor]:
        seen = torch.cat([before, self.norm(frames)], dim=1)
        around = side_by_side(seen, self.before + 1)
        change: Tensor = self.out(functional.gelu(self.mix(around), approximate="tanh"))
        return frames + change, seen
