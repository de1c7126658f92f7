"""Output layers onto a large vocabulary of which native code computes only what promises the most
(`native/shortlist.h`): for drafts, whose guesses may be wrong.

Shapes: V vocabulary, D inputs, B panels of neighbouring outputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from torch import Tensor

from talkahead.backbone.alike_rows import block_means, in_blocks_alike
from talkahead.backbone.native_matrix import plain
from talkahead.native_declarations import NativeStruct, native_struct
from talkahead.native_library import NativeLibrary

SHORTLISTED = 4096
"""Tokens of a vocabulary from which on most are not looked at."""
LOOKED_AT = 0.05
"""Of the others, sorted by likeness: the panels whose means promise the most. With the shipped heads'
15,361 tokens they hold the likeliest 96 to 98 times of 100."""
_FEWEST = 8
"""Panels."""
NativeShortlist = native_struct(Path(__file__).parent / "native" / "shortlist.h", "shortlist")


@dataclass(frozen=True)
class Shortlist:
    """
    Args:
        order: int64 [V], tokens as the layer's outputs lie; C points at it.
        rows: the layer's weights [V, D] in that order.
        means: [B, D], of each panel's.
    """

    order: Tensor
    rows: Tensor
    means: Tensor

    @classmethod
    def of(cls, weights: Tensor, library: NativeLibrary) -> Self | None:
        """Of a layer's weights [V, D]; None where the vocabulary is small.

        Args:
            library: of the decoder, which knows how many outputs a panel has.
        """
        if len(weights) < SHORTLISTED:
            return None
        rows, panel = plain(weights), int(library.talkahead_panel())
        order = in_blocks_alike(rows, panel)
        rows = rows[order]
        return cls(order, rows, block_means(rows, panel))

    def as_native(self, means: NativeStruct) -> NativeStruct:
        """With its means as they are packed; the tokens are there as long as this is."""
        panels = max(min(_FEWEST, len(self.means)), round(LOOKED_AT * len(self.means)))
        return NativeShortlist(means=means, tokens=self.order.data_ptr(), panels=panels)
