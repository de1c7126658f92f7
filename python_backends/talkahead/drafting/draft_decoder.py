"""What a drafter with a KV of its own needs of its decoder, and how that KV follows what is spoken.

Shapes: S running rows, W positions fed at once, D hidden size, V vocabulary, T positions of a slot's table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from talkahead.backbone.backbone import Backbone
from talkahead.speculation import host_reads
from talkahead.speculation.contracts import Scored
from talkahead.speculation.rows import Rows


class DraftDecoder(Backbone, Protocol):
    """`NativeDecoder` and `SlotDecoder` are such decoders."""

    @property
    def max_nodes(self) -> int: ...

    @property
    def spare_slots(self) -> int:
        """Behind the target's, for what belongs to no stream."""

    def extend(self, embedded: Tensor, counts: Tensor, rows: Rows) -> Scored:
        """Add `counts[s]` of the first layer's inputs [S, W, D] to each row's slot.

        Returns logits [S, 1, V] at each slot's last one, and hidden [S, W, D] at all that were added.
        """

    def lengths(self, rows: Rows) -> Tensor:
        """Valid positions of each row's slot, int64 [S]; a copy."""

    def keep(self, lengths: Tensor, rows: Rows) -> None:
        """Of each row's slot the first `lengths` [S] positions are valid; the others are scratch again."""


def feed(
    decoder: DraftDecoder,
    rows: Rows,
    ends: Tensor,
    inputs: Callable[[Tensor], Tensor],
    seen: Callable[[Tensor, Tensor], None] | None = None,
    *,
    most: int,
) -> Tensor:
    """Bring each row's KV up to position `ends` [S], excluded; the logits [S, V] after its last position.

    Rows are at different places: after a step that accepted a whole draft, its last token is still missing,
    and after steps without this drafter, all of theirs. At most `decoder.max_nodes` are fed at once.

    Args:
        inputs: from positions int64 [S, W] to the first layer's input [S, W, D].
        seen: is told positions and the hidden states [S, W, D] there; after `ends`, anything.
        most: that a row may lack, as far as is known; it goes by this where the host should not look.
    """
    logits: Tensor | None = None
    lengths = decoder.lengths(rows)
    while True:
        left = ends - lengths
        longest = int(left.max()) if host_reads.are_free(left) else most
        width = min(longest, decoder.max_nodes)
        places = lengths[:, None] + torch.arange(width, device=ends.device)
        counts = left.clamp(0, width)
        scored = decoder.extend(inputs(places), counts, rows)
        last = scored.logits[:, 0]
        logits = last if logits is None else torch.where(counts[:, None] > 0, last, logits)
        if seen is not None:
            seen(places, scored.hidden)
        if longest <= width:
            return logits
        lengths = lengths + counts
        most -= width


class PositionTable:
    """Values by slot and position, [slots, T, ...]; what lies after a slot's last position is anything."""

    def __init__(self, values: Tensor) -> None:
        slots, self._length = values.shape[:2]
        self.values = values
        self._flat = values.flatten(0, 1)  # a view, as allocated values are contiguous
        self._starts = torch.arange(slots, device=values.device)[:, None] * self._length

    def at(self, rows: Rows, places: Tensor) -> Tensor:
        """[S, W, ...] at int64 [S, W]."""
        found = self._flat.index_select(0, self._lines(rows, places))
        return found.view(*places.shape, *found.shape[1:])

    def put(self, rows: Rows, places: Tensor, values: Tensor) -> None:
        """Store [S, W, ...] at int64 [S, W]; what lies after the table is dropped onto its last place."""
        self._flat.index_copy_(0, self._lines(rows, places), values.flatten(0, 1))

    def _lines(self, rows: Rows, places: Tensor) -> Tensor:
        return (places.clamp_max(self._length - 1) + rows.take(self._starts)).flatten()
