"""Which tokens may be drawn, by their position in a segment.

Shapes: B rows, N nodes, V vocabulary.
"""

from __future__ import annotations

from typing import Protocol

from torch import Tensor


class AllowedTokens(Protocol):
    """What a family's token map forbids: `AllowedByStep`, `NoEarlyEnd`."""

    def apply(self, logits: Tensor, positions: Tensor) -> Tensor:
        """Logits [B, N, V] of the tokens at `positions`, int64 [B, N]; of those not allowed -inf. What was
        given may be written over."""
