"""Finite scalar quantisation (Mentzer et al. 2023, section 3): a codebook without learned vectors."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class Quantizer(nn.Module):
    """Rounds each latent dimension to one of its levels; a code is the mixed-radix number of the levels.

    Latents [..., K], K = len(levels); codes int64 [...] in 0..codebook_size - 1.
    """

    levels: Tensor
    radix: Tensor

    def __init__(self, levels: tuple[int, ...]) -> None:
        super().__init__()
        self.codebook_size = math.prod(levels)
        radix = [math.prod(levels[:place]) for place in range(len(levels))]
        self.register_buffer("levels", torch.tensor(levels), persistent=False)
        self.register_buffer("radix", torch.tensor(radix), persistent=False)

    def forward(self, latents: Tensor) -> Tensor:
        """Quantised latents in -1..1, with the gradient passed straight through the rounding."""
        scale = (self.levels - 1) / 2
        bounded = torch.sigmoid(latents.float()) * (self.levels - 1)
        rounded = bounded + (bounded.round() - bounded).detach()
        return rounded / scale - 1

    def encode(self, latents: Tensor) -> Tensor:
        digits = (torch.sigmoid(latents.float()) * (self.levels - 1)).round().long()
        return (digits * self.radix).sum(-1)

    def decode(self, codes: Tensor) -> Tensor:
        digits = (codes[..., None] // self.radix) % self.levels
        return digits / ((self.levels - 1) / 2) - 1
