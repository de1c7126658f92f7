"""A draft's own output: onto a few numbers first, and from these onto the vocabulary.

Layers of a draft are few, so that a whole head costs more than all else of a guess. Of the shipped talker's
the 128 strongest directions of 320 hold nearly all that tells likely tokens apart; what is lost by leaving
the others out, a draft that learns on makes up for.

Shapes: D hidden size, r rank, V vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class NarrowOutput(nn.Module):
    """Two linear layers: `inner` [r, D] and `outer` [V, r]."""

    def __init__(self, width: int, vocab_size: int, rank: int) -> None:
        super().__init__()
        self.inner = nn.Linear(width, rank, bias=False)
        self.outer = nn.Linear(rank, vocab_size, bias=False)

    @torch.no_grad()
    def begin_as(self, head: Tensor) -> None:
        """The head [V, D] that differs least from `head` among those of this rank."""
        wide = head.to(torch.float32)
        directions = torch.linalg.eigh(wide.T @ wide).eigenvectors[:, -self.inner.out_features :]
        self.inner.weight.copy_(directions.T)
        self.outer.weight.copy_(wide @ directions)

    def forward(self, states: Tensor) -> Tensor:
        """Logits [..., V] of states [..., D]."""
        logits: Tensor = self.outer(self.inner(states))
        return logits
