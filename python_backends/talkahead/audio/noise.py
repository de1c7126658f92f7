"""Noise for the decoder to shape: breath and consonants. It looks random and is a function of the phase.

A window decodes to the very samples of the whole utterance, so its noise must be drawn alike: the phase of a
frame, which every window is told, picks its place in a fixed table.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

_TABLE = 1 << 16
_MIXED = 2_654_435_761
"""An odd number near 2**32 over the golden ratio: its multiples spread neighbouring phases (Knuth, 6.4)."""


class Noise(nn.Module):
    """Pieces [B, T * S, L] of unit power. `forward`: phases int64 [B, T] in units, of B rows and T frames."""

    table: Tensor

    def __init__(self, subframes: int, size: int) -> None:
        super().__init__()
        self.subframes, self.size = subframes, size
        # RandomState's stream is frozen, unlike torch's and numpy's newer ones: weights learn this noise.
        table = np.random.RandomState(0).standard_normal(_TABLE + size).astype(np.float32)
        self.register_buffer("table", torch.from_numpy(table), persistent=False)

    def forward(self, phases: Tensor) -> Tensor:
        keys = phases[..., None] + torch.arange(self.subframes, device=phases.device)
        places = (keys * _MIXED % (1 << 32)) >> 16
        return self.table.unfold(0, self.size, 1)[places.flatten(1)]
