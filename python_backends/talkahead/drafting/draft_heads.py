"""Draft heads: each sees one token further ahead than the one before, from the target's last hidden state.

Medusa's heads (Cai et al. 2024, section 2.1.1), for speech after Li et al. 2025 (section III-A). Theirs guess
side by side, blind to one another. Unless blind, heads are told the tokens that they continue (Hydra: Ankner
et al. 2024, section 3): the root, which has been drawn by the time that a draft is made, and then the path of
the tree. What follows depends on it, the more so where the likeliest token is not always drawn.

Shapes: B rows, K heads of L blocks, D hidden size, H size of a block, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from talkahead.drafting.narrow_output import NarrowOutput

BLOCK_SIZE = 512


class _Table(nn.Module):
    """A matrix [V, D] of the target's: it follows the draft, but neither learns nor is kept with it."""

    weight: Tensor

    def __init__(self, rows: int, width: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.empty(rows, width), persistent=False)


class _LentEmbedding(_Table):
    def forward(self, tokens: Tensor) -> Tensor:
        return functional.embedding(tokens, self.weight)


class _LentLinear(_Table):
    def forward(self, states: Tensor) -> Tensor:
        return functional.linear(states, self.weight)


class DraftHeads(nn.Module):
    """K heads: residual blocks with SiLU, then a linear layer onto the vocabulary.

    Head i, from 1, guesses the i-th token after the one that the hidden state draws, the root. Of heads that
    are told tokens, each goes on from the states of the one before, and all share one linear layer, which
    stays in the cache; blind ones see the hidden state alone, and have one each.

    Args:
        block_size: H, between the two layers of a block; None: a block is one layer, as Cai et al. have it.
        num_blocks: L, one after the other.
        sees_tokens: whether they are told the tokens that they continue.
        shares_tables: whether embeddings are the target's own, and the linear layer too, unless they have a
            narrow one; for heads that are told tokens.
        output_rank: None: a whole linear layer; else of their own, as of `NarrowOutput`, for heads that are
            told tokens.
    """

    def __init__(
        self,
        num_heads: int,
        width: int,
        vocab_size: int,
        *,
        block_size: int | None = BLOCK_SIZE,
        num_blocks: int = 1,
        sees_tokens: bool = True,
        shares_tables: bool = False,
        output_rank: int | None = None,
    ) -> None:
        super().__init__()
        assert sees_tokens or not shares_tables, "blind heads have a linear layer each"
        assert output_rank is None or sees_tokens, "blind heads' linear layers are whole"
        self.width, self.vocab_size, self.block_size = width, vocab_size, block_size
        self.num_blocks, self.sees_tokens, self.shares_tables = num_blocks, sees_tokens, shares_tables
        self.output_rank = output_rank
        if sees_tokens:
            embedding = _LentEmbedding if shares_tables else nn.Embedding
            self.embed_tokens = embedding(vocab_size, width)
            self.projector = nn.Linear(width, width, bias=False)
        blocks = range(num_heads * num_blocks)
        self.inward = nn.ModuleList(nn.Linear(width, block_size or width) for _ in blocks)
        self.outward = nn.ModuleList(nn.Linear(block_size, width) for _ in blocks if block_size)
        self.linears = nn.ModuleList(self._linear() for _ in range(1 if sees_tokens else num_heads))

    def _linear(self) -> nn.Module:
        if self.output_rank is not None:
            return NarrowOutput(self.width, self.vocab_size, self.output_rank)
        if self.shares_tables:
            return _LentLinear(self.vocab_size, self.width)
        return nn.Linear(self.width, self.vocab_size, bias=False)

    @classmethod
    def beginning_as(
        cls,
        head: Tensor,
        num_heads: int,
        embeddings: Tensor | None = None,
        block_size: int = BLOCK_SIZE,
        *,
        shares_tables: bool = False,
        output_rank: int | None = None,
    ) -> Self:
        """Each head guesses at first as the target's own head [V, D] would.

        Args:
            embeddings: the target's, [V, D], by which heads are told tokens; None: blind ones.
        """
        vocabulary, width = head.shape
        sees_tokens = embeddings is not None
        heads = cls(
            *(num_heads, width, vocabulary),
            block_size=block_size,
            sees_tokens=sees_tokens,
            shares_tables=shares_tables,
            output_rank=output_rank,
        )
        heads.take_tables(head, embeddings)
        with torch.no_grad():
            if sees_tokens:
                heads.projector.weight.zero_()
            for block in heads.outward:
                for value in block.parameters():
                    value.zero_()
        return heads

    @torch.no_grad()
    def take_tables(self, head: Tensor, embeddings: Tensor | None) -> None:
        """The target's, [V, D] each."""
        if embeddings is not None:
            self.embed_tokens.weight.copy_(embeddings)
        for linear in self._linears:
            if isinstance(linear, NarrowOutput):
                linear.begin_as(head)
            else:
                linear.weight.copy_(head)

    @property
    def _linears(self) -> Sequence[nn.Linear | _LentLinear | NarrowOutput]:
        return cast("Sequence[nn.Linear | _LentLinear | NarrowOutput]", self.linears)

    def __len__(self) -> int:
        return len(self.inward) // self.num_blocks

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def forward(self, hidden: Tensor, tokens: Tensor) -> Tensor:
        """What each head guesses, [B, K, V], of hidden [B, D] and the root and what followed it, [B, K]."""
        seen, guesses = self.begin(hidden, tokens[:, 0]), []
        for index in range(len(self)):
            states = self.states(seen, index)
            guesses.append(self.guesses(states, index))
            if index + 1 < len(self):
                seen = self.onward(seen, states, tokens[:, index + 1])
        return torch.stack(guesses, dim=1)

    def begin(self, hidden: Tensor, roots: Tensor) -> Tensor:
        """What the first head looks at, [B, D]."""
        return self._with_tokens(hidden, roots)

    def states(self, seen: Tensor, index: int) -> Tensor:
        """[B, D], after a head's blocks."""
        for block in range(index * self.num_blocks, (index + 1) * self.num_blocks):
            change: Tensor = functional.silu(self.inward[block](seen))
            if self.block_size:
                change = self.outward[block](change)
            seen = seen + change.to(seen.dtype)
        return seen

    def guesses(self, states: Tensor, index: int) -> Tensor:
        """Logits [B, V] of a head."""
        linear = self._linears[index if len(self.linears) > 1 else 0]
        logits: Tensor = linear(states.to(_matrices(linear)[0].dtype))
        return logits

    def onward(self, seen: Tensor, states: Tensor, tokens: Tensor) -> Tensor:
        """What the next head looks at, [B, D], where `tokens` [B] follow."""
        return self._with_tokens(states, tokens) if self.sees_tokens else seen

    def _with_tokens(self, states: Tensor, tokens: Tensor) -> Tensor:
        if not self.sees_tokens:
            return states
        rows: Tensor = self.projector(self.embed_tokens(tokens))
        return states + rows.to(states.dtype)

    @torch.no_grad()
    def token_rows(self) -> Tensor | None:
        """What each token adds to the states that it follows, [V, D]; None of blind heads."""
        if not self.sees_tokens:
            return None
        table: Tensor = self.projector(self.embed_tokens.weight)
        return table

    def distinct_weights(self) -> list[tuple[Tensor, ...]]:
        """[V, D] of each linear layer onto the vocabulary, or [r, D] and [V, r]; a shared one stands once."""
        return [_matrices(linear) for linear in self._linears]

    def linear_weights(self) -> list[tuple[Tensor, ...]]:
        """Of each head [V, D], or [r, D] and [V, r]."""
        own = self.distinct_weights()
        return own if len(own) == len(self) else own * len(self)

    def narrow(self, dtype: torch.dtype) -> None:
        """Compute the products with the vocabulary, nearly all of the work, in this precision."""
        self.linears.to(dtype)


def _matrices(linear: nn.Linear | _LentLinear | NarrowOutput) -> tuple[Tensor, ...]:
    """That states meet, one after the other."""
    if isinstance(linear, NarrowOutput):
        return linear.inner.weight, linear.outer.weight
    return (linear.weight,)


def weights_of(layers: nn.ModuleList) -> Sequence[tuple[Tensor, Tensor]]:
    """Weight and bias of each linear layer."""
    return [(layer.get_parameter("weight"), layer.get_parameter("bias")) for layer in layers]
