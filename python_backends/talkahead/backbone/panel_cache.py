"""Keys and values of all slots as the native decoder reads them: vectors run across positions of a key.

Shapes: S slots in use, M nodes of a path, d head size.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import torch
from torch import Tensor

from talkahead.backbone.arena import Arena
from talkahead.backbone.slot_store import SlotStore
from talkahead.speculation.contracts import Accepted

Compact = Callable[[Tensor, Tensor, Tensor, Tensor], None]
"""Moves nodes within slots [S], of lengths [S] and counts [S], along paths [S, M]; int64, contiguous."""


class PanelCache(SlotStore):
    """KV as words `[layer, slot, head, 2, positions * d / packing]`, and how much of each slot is valid.

    How words lie is `native/decoder.c`'s affair; here it matters that the first positions of a slot are the
    first words of its keys and of its values, in whole panels.

    Args:
        num_positions: of a slot; room is made for whole panels.
        words: of one position's key.
        compact: the decoder's own way to bring accepted nodes together.
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
        super().__init__(num_slots, torch.device("cpu"))
        self._words = words
        self._panel = panel
        self._compact = compact
        self._slots = torch.arange(num_slots)
        shape = (num_layers, num_slots, num_heads, 2, self._words_of(num_positions))
        self._kv = Arena().take(4 * prod(shape)).view(torch.int32).view(shape)

    @property
    def address(self) -> int:
        """Of the first word."""
        return self._kv.data_ptr()

    def compact(self, accepted: Accepted, slots: slice) -> None:
        """Bring each slot's accepted nodes, which lie behind its length in tree order, next to each other."""
        lengths = self.lengths_of(slots)
        self._compact(self._slots[slots], lengths, accepted.counts.contiguous(), accepted.path.contiguous())

    def _held(self, slot: int, length: int) -> Tensor:
        return self._kv[:, slot, :, :, : self._words_of(length)]

    def _words_of(self, length: int) -> int:
        """Words of the panels that `length` positions touch."""
        return -(-length // self._panel) * self._panel * self._words
