"""Noise for a decoder to shape: breath and consonants. It looks random and is a function of its place.

A window decodes to the very samples of the whole utterance, so its noise must be drawn alike: the number of a
piece in its utterance picks a place in a fixed table.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

_TABLE = 1 << 16
_MIXED = 2_654_435_761
"""An odd number near 2**32 over the golden ratio: its multiples spread neighbouring numbers (Knuth, 6.4)."""


class Noise(nn.Module):
    """Pieces [B, T * S, L] of unit power. `forward`: numbers int64 [B, T] of the first piece of each
    frame, of B rows and T frames."""

    table: Tensor

    def __init__(self, subframes: int, size: int) -> None:
        super().__init__()
        self.subframes, self.size = subframes, size
        # RandomState's stream is frozen, unlike torch's and numpy's newer ones: weights learn this noise.
        table = np.random.RandomState(0).standard_normal(_TABLE + size).astype(np.float32)
        self.register_buffer("table", torch.from_numpy(table), persistent=False)

    def forward(self, numbers: Tensor) -> Tensor:
        keys = numbers[..., None] + torch.arange(self.subframes, device=numbers.device)
        places = (keys * _MIXED % (1 << 32)) >> 16
        return self.table.unfold(0, self.size, 1)[places.flatten(1)]
