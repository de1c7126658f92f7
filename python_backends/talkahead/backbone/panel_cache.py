"""Keys and values of all slots as the native decoder reads them: vectors run across positions of a key.

Shapes: S slots in use, M nodes of a path, d head size.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import torch
from torch import Tensor

from talkahead.backbone.arena import Arena
from talkahead.speculation.contracts import Accepted

Compact = Callable[[Tensor, Tensor, Tensor, Tensor], None]
"""Moves nodes within slots [S], of lengths [S] and counts [S], along paths [S, M]; int64, contiguous."""


class PanelCache:
    """KV as words `[layer, slot, head, 2, positions * d / packing]`, and how much of each slot is valid.

    How words lie is `native/decoder.c`'s affair; here it matters that the first positions of a slot are the
    first words of its keys and of its values, in whole panels. What lies behind a slot's length is scratch.

    Args:
        num_positions: of a slot; room is made for whole panels.
        words: of one position's key.
        compact: the decoder's own way to bring accepted nodes together.

    Attributes:
        lengths: int64 [slots], the valid positions of each slot.
    """

    def __init__(
        self,
        num_layers: int,
        num_slots: int,
        num_heads: int,
        num_positions: int,
        *,
        words: int,
        panel: int,
        compact: Compact,
    ) -> None:
        self.lengths = torch.zeros(num_slots, dtype=torch.int64)
        self._words = words
        self._panel = panel
        self._compact = compact
        self._slots = torch.arange(num_slots)
        shape = (num_layers, num_slots, num_heads, 2, self._held(num_positions))
        self._kv = Arena().take(4 * prod(shape)).view(torch.int32).view(shape)

    @property
    def address(self) -> int:
        """Of the first word."""
        return self._kv.data_ptr()

    def compact(self, accepted: Accepted, slots: slice) -> None:
        """Bring each slot's accepted nodes, which lie behind its length in tree order, next to each other."""
        self._compact(
            self._slots[slots], self.lengths[slots], accepted.counts.contiguous(), accepted.path.contiguous()
        )

    def move(self, source: int, target: int) -> None:
        """Slot `target` takes over what `source` holds."""
        length = int(self.lengths[source])
        held = self._held(length)
        self._kv[:, target, :, :, :held] = self._kv[:, source, :, :, :held]
        self.lengths[target] = length
        self.lengths[source] = 0

    def swap(self, first: int, second: int) -> None:
        held = self._held(int(self.lengths[[first, second]].max()))
        kept = self._kv[:, first, :, :, :held].clone()
        self._kv[:, first, :, :, :held] = self._kv[:, second, :, :, :held]
        self._kv[:, second, :, :, :held] = kept
        self.lengths[[first, second]] = self.lengths[[second, first]]

    def release(self, slot: int) -> None:
        self.lengths[slot] = 0

    def _held(self, length: int) -> int:
        """Words of the panels that `length` positions touch."""
        return -(-length // self._panel) * self._panel * self._words
