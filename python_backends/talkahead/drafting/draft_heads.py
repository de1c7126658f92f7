"""Draft heads: each sees one token further ahead than the one before, from the target's last hidden state.

Medusa's heads (Cai et al. 2024, section 2.1.1), for speech after Li et al. 2025 (section III-A).

Shapes: B rows, K heads, D hidden size, V vocabulary.
"""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional


class DraftHeads(nn.Module):
    """K heads: a residual block with SiLU, then a linear layer onto the vocabulary. [B, D] -> [B, K, V].

    Head i, from 1, guesses the i-th token behind the one that the hidden state draws.
    """

    def __init__(self, num_heads: int, width: int, vocab_size: int) -> None:
        super().__init__()
        self.width, self.vocab_size = width, vocab_size
        self.blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(num_heads))
        self.heads = nn.ModuleList(nn.Linear(width, vocab_size, bias=False) for _ in range(num_heads))

    @classmethod
    def beginning_as(cls, head: Tensor, num_heads: int) -> Self:
        """Each head guesses at first as the target's own head [V, D] would."""
        heads = cls(num_heads, head.shape[1], head.shape[0])
        with torch.no_grad():
            for block, own in zip(heads.blocks, heads.heads, strict=True):
                for value in block.parameters():
                    value.zero_()
                own.get_parameter("weight").copy_(head)
        return heads

    def __len__(self) -> int:
        return len(self.blocks)

    def forward(self, hidden: Tensor) -> Tensor:
        return torch.stack([self.guesses(hidden, index) for index in range(len(self))], dim=1)

    def guesses(self, hidden: Tensor, index: int) -> Tensor:
        """Logits [B, V] of one head."""
        states = hidden + functional.silu(self.blocks[index](hidden))
        logits: Tensor = self.heads[index](states.to(self.heads[index].get_parameter("weight").dtype))
        return logits

    def block_weights(self) -> list[tuple[Tensor, Tensor]]:
        """[D, D] and [D] of each head's block."""
        return [(block.get_parameter("weight"), block.get_parameter("bias")) for block in self.blocks]

    def head_weights(self) -> list[Tensor]:
        """[V, D] of each head."""
        return [head.get_parameter("weight") for head in self.heads]

    def narrow(self, dtype: torch.dtype) -> None:
        """Compute the products with the vocabulary, nearly all of the work, in this precision."""
        self.heads.to(dtype)
