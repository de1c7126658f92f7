"""What a decoder takes of memory, counted before any of it is taken."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Self

from talkahead.backbone.checkpoint import EMBEDDINGS, HEAD, tensor_shapes
from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.errors import Code, TalkaheadError

_VECTOR_BYTES = 4
"""Of a norm's or bias's value: all that is no matrix stays wide."""
_UNITS = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


@dataclass(frozen=True)
class DecoderMemory:
    """In bytes; what a forward holds while it runs comes on top, some megabytes.

    Args:
        weights: of all layers and the head, as products read them.
        embeddings: of the tokens that are drawn.
        slot: keys and values of one slot.
        num_slots: that are asked for.
        num_positions: of each.
        spare_slots: beside these, for what steps on a device are padded with.
    """

    weights: int
    embeddings: int
    slot: int
    num_slots: int
    num_positions: int
    spare_slots: int = 0

    @classmethod
    def of(
        cls,
        config: DecoderConfig,
        *,
        weight_bytes: float,
        embedding_bytes: int,
        kv_bytes: int,
        num_slots: int,
        num_positions: int,
        panel: int = 1,
        spare_slots: int = 0,
    ) -> Self:
        """
        Args:
            weight_bytes, embedding_bytes, kv_bytes: of one value of a matrix, of the embeddings, of a key.
            panel: positions come in whole multiples of it.
        """
        shapes = tensor_shapes(config)
        table = shapes.pop(EMBEDDINGS)
        shapes[HEAD] = table
        weights = round(
            sum(
                prod(shape) * (weight_bytes if len(shape) == 2 else _VECTOR_BYTES)
                for shape in shapes.values()
            )
        )
        values = 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim
        slot = values * kv_bytes * -(-num_positions // panel) * panel
        return cls(weights, prod(table) * embedding_bytes, slot, num_slots, num_positions, spare_slots)

    @property
    def fixed(self) -> int:
        """Of a decoder without slots."""
        return self.weights + self.embeddings + self.spare_slots * self.slot

    @property
    def total(self) -> int:
        return self.fixed + self.num_slots * self.slot

    def slots_within(self, budget: int) -> int:
        """How many there is room for."""
        return max((budget - self.fixed) // self.slot, 0)

    def refuse_beyond(self, budget: int) -> None:
        """Raises TalkaheadError where the slots that are asked for do not fit."""
        fitting = self.slots_within(budget)
        if fitting < self.num_slots:
            raise TalkaheadError(
                f"memory_bytes is {budget:,}, and {self.num_slots} slots of {self.num_positions:,} positions "
                f"take {self.total:,}; allowed: slots up to {fitting}, or at least "
                f"{self.fixed + self.slot:,} bytes for one slot ({'; '.join(self.lines())})",
                Code.RESOURCE_EXHAUSTED,
            )

    def lines(self) -> tuple[str, ...]:
        """The sum, item by item."""
        spare = (f"{self.spare_slots} more for padding",) if self.spare_slots else ()
        return (
            f"weights {shown(self.weights)}",
            f"embeddings {shown(self.embeddings)}",
            f"keys and values of {self.num_positions:,} positions {shown(self.slot)} a slot",
            f"{self.num_slots} slots {shown(self.num_slots * self.slot)}",
            *spare,
            f"all {shown(self.total)}",
        )


def shown(num_bytes: int) -> str:
    """In the largest unit that it fills."""
    name, unit = next((one for one in _UNITS if num_bytes >= one[1]), ("bytes", 1))
    return f"{num_bytes / unit:,.1f} {name}" if unit > 1 else f"{num_bytes} {name}"
