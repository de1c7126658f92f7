"""Keys and values of all slots, allocated once: speech is bounded, so a slot is a fixed stretch of positions.

Shapes: R slots, K KV heads, d head size, S rows of a step, M nodes of a path, T rows written at once.
"""

from __future__ import annotations

import torch
from torch import Tensor

from talkahead.speculation.contracts import Accepted
from talkahead.speculation.rows import Rows


class SlotCache:
    """KV as one tensor `[layer, 2, slot, head, position, dim]`, and how much of each slot is valid.

    What lies after a slot's length is finite, and no mask lets anything see it.

    Attributes:
        lengths: int64 [R], the valid positions of each slot.
    """

    def __init__(
        self,
        num_layers: int,
        num_slots: int,
        num_heads: int,
        num_positions: int,
        dim: int,
        *,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.lengths = torch.zeros(num_slots, dtype=torch.int64, device=device)
        self.num_positions = num_positions
        self._num_heads = num_heads
        self._dim = dim
        self._kv = torch.zeros(
            (num_layers, 2, num_slots, num_heads, num_positions, dim), dtype=dtype, device=device
        )
        self._flat = [self._kv[layer].view(-1, dim) for layer in range(num_layers)]
        # Where (key or value, head) of slot 0 starts among a layer's flat rows, [2 K].
        starts = torch.arange(2)[:, None] * num_slots * num_heads + torch.arange(num_heads)
        self._starts = (starts * num_positions).flatten().to(device)
        self._layers = torch.arange(num_layers, device=device)[:, None] * len(self._flat[0])

    @property
    def num_bytes(self) -> int:
        return self._kv.numel() * self._kv.element_size()

    def rows_at(self, slots: Tensor, positions: Tensor) -> Tensor:
        """Flat rows of the keys and values at (slot, position), [T 2 K] from [T] each, for every layer."""
        base = slots * (self._num_heads * self.num_positions) + positions
        return (base[:, None] + self._starts).flatten()

    def write(self, layer: int, rows: Tensor, keys_values: Tensor) -> None:
        """Store [T, 2 K, d], keys first, at `rows` from `rows_at`."""
        self._flat[layer].index_copy_(0, rows, keys_values.reshape(-1, self._dim).to(self._kv.dtype))

    def read(self, layer: int, rows: Rows, span: int) -> tuple[Tensor, Tensor]:
        """Keys and values, [S K, span, d] each: views where the rows' slots are neighbours."""
        keys, values = (rows.take(part[:, :, :span]).flatten(0, 1) for part in self._kv[layer])
        return keys, values

    def keys_of(self, layer: int, head: int, rows: Rows, span: int) -> Tensor:
        """Keys of one KV head, [S, span, d]."""
        return rows.take(self._kv[layer, 0, :, head, :span])

    def layer(self, layer: int) -> tuple[Tensor, Tensor]:
        """Keys and values of all slots, [R, K, positions, d] each, where they lie."""
        keys, values = self._kv[layer]
        return keys, values

    def compact(self, accepted: Accepted, rows: Rows) -> None:
        """Bring each row's accepted nodes, which lie after its length in tree order, next to each other."""
        steps = torch.arange(accepted.path.shape[1], device=self._kv.device)
        # A node beyond the path stays where it is, which is scratch.
        nodes = torch.where(steps < accepted.counts[:, None], accepted.path, steps)
        after, slots = rows.take(self.lengths)[:, None], rows.slots.repeat_interleave(len(steps))
        source, target = (
            (self._layers + self.rows_at(slots, (after + offsets).flatten())).flatten()
            for offsets in (nodes, steps)
        )
        flat = self._kv.view(-1, self._dim)
        flat.index_copy_(0, target, flat.index_select(0, source))
