"""Draft heads: each sees one token further ahead than the one before, from the target's last hidden state.

Medusa's heads (Cai et al. 2024, section 2.1.1), for speech after Li et al. 2025 (section III-A). Unless
blind, as theirs are, heads are also told the root: it has been drawn by the time that a draft is made, and
what follows depends on it, the more so where the likeliest token is not always drawn.

Shapes: B rows, K heads, D hidden size, V vocabulary.
"""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional


class DraftHeads(nn.Module):
    """K heads: a residual block with SiLU, then a linear layer onto the vocabulary.

    hidden [B, D], roots int64 [B] -> [B, K, V]. Head i, from 1, guesses the i-th token behind the root, which
    is the one that the hidden state draws.

    Args:
        sees_tokens: whether they are told the root.
    """

    def __init__(self, num_heads: int, width: int, vocab_size: int, *, sees_tokens: bool = True) -> None:
        super().__init__()
        self.width, self.vocab_size, self.sees_tokens = width, vocab_size, sees_tokens
        if sees_tokens:
            self.embed_tokens = nn.Embedding(vocab_size, width)
            self.projector = nn.Linear(width, width, bias=False)
        self.blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(num_heads))
        self.heads = nn.ModuleList(nn.Linear(width, vocab_size, bias=False) for _ in range(num_heads))

    @classmethod
    def beginning_as(cls, head: Tensor, num_heads: int, embeddings: Tensor | None = None) -> Self:
        """Each head guesses at first as the target's own head [V, D] would.

        Args:
            embeddings: the target's, [V, D], by which heads are told the root; None: blind ones.
        """
        heads = cls(num_heads, head.shape[1], head.shape[0], sees_tokens=embeddings is not None)
        with torch.no_grad():
            if embeddings is not None:
                heads.embed_tokens.weight.copy_(embeddings)
                heads.projector.weight.zero_()
            for block, own in zip(heads.blocks, heads.heads, strict=True):
                for value in block.parameters():
                    value.zero_()
                own.get_parameter("weight").copy_(head)
        return heads

    def __len__(self) -> int:
        return len(self.blocks)

    def forward(self, hidden: Tensor, roots: Tensor) -> Tensor:
        seen = self.seen(hidden, roots)
        return torch.stack([self.guesses(seen, index) for index in range(len(self))], dim=1)

    def seen(self, hidden: Tensor, roots: Tensor) -> Tensor:
        """What all heads look at, [B, D]: the hidden state, and the root if they are told it."""
        if not self.sees_tokens:
            return hidden
        told: Tensor = self.projector(self.embed_tokens(roots))
        return hidden + told.to(hidden.dtype)

    @torch.no_grad()
    def told(self) -> Tensor | None:
        """What heads are told of each token, [V, D]: serving looks it up. None of blind ones."""
        if not self.sees_tokens:
            return None
        table: Tensor = self.projector(self.embed_tokens.weight)
        return table

    def guesses(self, seen: Tensor, index: int) -> Tensor:
        """Logits [B, V] of one head."""
        states = seen + functional.silu(self.blocks[index](seen))
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
