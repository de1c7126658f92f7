"""The stress test of groups (Yanuka et al. 2025, table 2): each token gives way to any other that is like it.

Shapes: V vocabulary, D embedding size.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional


class TokenSwap:
    """Replaces every token that has neighbours by one of them, all as likely; the end of speech has none.

    Args:
        embeddings: [V, D].
        similarity: neighbours have a cosine above it (equation 1).
        eos: the end of speech.
    """

    def __init__(self, embeddings: Tensor, similarity: float, eos: int) -> None:
        unit = functional.normalize(embeddings.to(torch.float64), dim=1)
        self._is_near = unit @ unit.T > similarity
        self._is_near.fill_diagonal_(False)
        self._is_near[eos] = False
        self._is_near[:, eos] = False

    @property
    def mean_size(self) -> float:
        """Tokens of a neighbourhood on average, its own among them."""
        return 1.0 + float(self._is_near.sum(1).double().mean())

    def apply(self, tokens: Sequence[int], seed: int) -> list[int]:
        """Other tokens in their places; the same seed gives the same."""
        generator = torch.Generator().manual_seed(seed)
        swapped = []
        for token in tokens:
            near = self._is_near[token].nonzero()[:, 0]
            if len(near):
                token = int(near[torch.randint(len(near), (), generator=generator)])
            swapped.append(token)
        return swapped
