"""Keys and values of all slots, allocated once: speech is bounded, so a slot is a fixed stretch of positions.

Shapes: R slots, K KV heads, d head size, S slots in use, M nodes of a path, T rows written at once.
"""

from __future__ import annotations

import torch
from torch import Tensor

from talkahead.backbone.slot_store import SlotStore
from talkahead.speculation.contracts import Accepted


class SlotCache(SlotStore):
    """KV as one tensor `[layer, 2, slot, head, position, dim]`, and how much of each slot is valid.

    What lies behind a slot's length is finite, and no mask lets anything see it.
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
        super().__init__(num_slots, device)
        self.num_positions = num_positions
        self._num_heads = num_heads
        self._dim = dim
        self._kv = torch.zeros(
            (num_layers, 2, num_slots, num_heads, num_positions, dim), dtype=dtype, device=device
        )
        rows = num_slots * num_heads
        by_head = self._kv.view(num_layers, 2, rows, num_positions, dim)
        self._keys = [by_head[layer, 0] for layer in range(num_layers)]
        self._values = [by_head[layer, 1] for layer in range(num_layers)]
        self._flat = [self._kv[layer].view(-1, dim) for layer in range(num_layers)]
        # Where (key or value, head) of slot 0 starts among a layer's flat rows, [2 K].
        starts = torch.arange(2)[:, None] * rows + torch.arange(num_heads)
        self._starts = (starts * num_positions).flatten().to(device)

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

    def read(self, layer: int, slots: slice, span: int) -> tuple[Tensor, Tensor]:
        """Views of keys and values, [S K, span, d] each."""
        rows = slice(slots.start * self._num_heads, slots.stop * self._num_heads)
        return self._keys[layer][rows, :span], self._values[layer][rows, :span]

    def compact(self, accepted: Accepted, slots: slice) -> None:
        """Bring each slot's accepted nodes, which lie behind its length in tree order, next to each other."""
        steps = torch.arange(accepted.path.shape[1], device=self._kv.device)
        # A node beyond the path stays where it is, which is scratch.
        nodes = torch.where(steps < accepted.counts[:, None], accepted.path, steps)
        source, target = (
            (offsets + self.lengths[slots, None])[None, None, :, None, :, None] for offsets in (nodes, steps)
        )
        held = self._kv[:, :, slots]
        shape = (*held.shape[:4], len(steps), self._dim)
        held.scatter_(4, target.expand(shape), held.gather(4, source.expand(shape)))

    def _held(self, slot: int, length: int) -> Tensor:
        return self._kv[:, :, slot, :, :length]
