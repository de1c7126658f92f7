"""Keys and values of all slots as the native decoder reads them: vectors run across positions of a key.

Shapes: R slots, S rows of a step, M nodes of a path, d head size.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from talkahead.backbone.arena import untouched_zeros
from talkahead.speculation.contracts import Accepted
from talkahead.speculation.rows import Rows

Compact = Callable[[Tensor, Tensor, Tensor, Tensor], None]
"""Moves nodes within slots [S], after lengths [R], by counts [S] along paths [S, M]; int64, contiguous."""


class PanelCache:
    """KV as words `[layer, slot, head, 2, positions * d / packing]`, and how much of each slot is valid.

    How words lie is `native/decoder.c`'s affair; here it matters that a slot's keys fill whole panels, and
    so do its values.

    Args:
        num_positions: of a slot; room is made for whole panels.
        words: of one position's key.
        compact: the decoder's own way to bring accepted nodes together.

    Attributes:
        lengths: int64 [R], the valid positions of each slot; what lies behind is scratch.
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
        self._compact = compact
        shape = (num_layers, num_slots, num_heads, 2, -(-num_positions // panel) * panel * words)
        self._kv = untouched_zeros(shape, torch.int32, self.lengths.device)

    @property
    def address(self) -> int:
        """Of the first word."""
        return self._kv.data_ptr()

    def compact(self, accepted: Accepted, rows: Rows) -> None:
        """Bring each row's accepted nodes, which lie after its length in tree order, next to each other."""
        self._compact(rows.slots, self.lengths, accepted.counts.contiguous(), accepted.path.contiguous())
