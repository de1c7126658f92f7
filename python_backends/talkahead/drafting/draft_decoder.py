"""What a drafter with a KV of its own needs of its decoder, and how that KV follows what is spoken.

Shapes: S running rows, W positions fed at once, D hidden size, V vocabulary, T positions of a slot's table.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Protocol

import torch
from torch import Tensor

from talkahead.backbone.backbone import Backbone
from talkahead.speculation.contracts import Scored
from talkahead.speculation.token_tree import ROOT_PARENT, TreeShape


class DraftDecoder(Backbone, Protocol):
    """`NativeDecoder` and `SlotDecoder` are such decoders."""

    @property
    def max_nodes(self) -> int: ...

    def score_embedded(self, embedded: Tensor, shape: TreeShape, rows: slice) -> Scored:
        """Score nodes given as the first layer's input [S, N, D], leaving their KV as scratch."""

    def lengths(self, rows: slice) -> Tensor:
        """Valid positions of each slot, int64 [S]; a copy."""

    def keep(self, lengths: Tensor, rows: slice) -> None:
        """Of each slot the first `lengths` [S] positions are valid, those scored last among them."""


@lru_cache(maxsize=256)
def chain(nodes: int) -> TreeShape:
    """Each node is the only child of the one before."""
    return TreeShape(tuple(range(ROOT_PARENT, nodes - 1)))


def feed(
    decoder: DraftDecoder,
    rows: slice,
    ends: Tensor,
    inputs: Callable[[Tensor], Tensor],
    seen: Callable[[Tensor, Tensor], None] | None = None,
) -> Tensor:
    """Bring each row's KV up to position `ends` [S], excluded; the logits [S, V] behind its last position.

    Rows are at different places: after a step that accepted a whole draft, its last token is still missing,
    and after steps without this drafter, all of theirs. Rows with less to feed are padded with what lies
    behind, as scratch. At most `decoder.max_nodes` positions are fed at once.

    Args:
        inputs: from positions int64 [S, W] to the first layer's input [S, W, D].
        seen: is told positions and the hidden states [S, W, D] there.
    """
    lines = torch.arange(len(ends), device=ends.device)
    logits: Tensor | None = None
    lengths = decoder.lengths(rows)
    while True:
        left = ends - lengths
        longest = int(left.max())
        width = min(longest, decoder.max_nodes)
        places = lengths[:, None] + torch.arange(width, device=ends.device)
        scored = decoder.score_embedded(inputs(places), chain(width), rows)
        counts = left.clamp(0, width)
        last = scored.logits[lines, (counts - 1).clamp_min(0)]
        logits = last if logits is None else torch.where(counts[:, None] > 0, last, logits)
        if seen is not None:
            seen(places, scored.hidden)
        lengths = lengths + counts
        decoder.keep(lengths, rows)
        if longest <= width:
            return logits


class SlotTable:
    """Values by slot and position, [slots, T, ...]; what lies behind a slot's last position is anything."""

    def __init__(self, values: Tensor) -> None:
        self.values = values

    def at(self, rows: slice, places: Tensor) -> Tensor:
        """[S, W, ...] at int64 [S, W]."""
        own = self.values[rows]
        return own[_lines(places), places.clamp_max(own.shape[1] - 1)]

    def put(self, rows: slice, places: Tensor, values: Tensor) -> None:
        """Store [S, W, ...] at int64 [S, W]; what lies behind the table is dropped onto its last place."""
        own = self.values[rows]
        own[_lines(places), places.clamp_max(own.shape[1] - 1)] = values

    def move(self, source: int, target: int) -> None:
        self.values[target] = self.values[source]

    def swap(self, first: int, second: int) -> None:
        self.values[[first, second]] = self.values[[second, first]]


def _lines(places: Tensor) -> Tensor:
    return torch.arange(len(places), device=places.device)[:, None]
