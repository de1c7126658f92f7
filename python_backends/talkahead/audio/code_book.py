"""What a code says of its frame: its pitch, or that it has none, and its spectrum.

A code is `spectrum + spectra * tone`. The first `shades` tones are unvoiced, with one more dimension of the
spectrum in place of a pitch: consonants need it. The others are the levels of the pitch.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from talkahead.audio.pitch import UNVOICED
from talkahead.audio.quantizer import Quantizer


class CodeBook(nn.Module):
    """Codes int64 [...] in 0..size - 1 of latents [..., K + 1] and levels of pitch int64 [...].

    The last latent is the shade of unvoiced frames; where a frame has a pitch, it is 0.

    Args:
        levels: of the K dimensions of the spectrum.
        shades: levels of the last dimension.
        pitches: levels of the pitch, beside 0, which is unvoiced.
    """

    def __init__(self, levels: tuple[int, ...], shades: int, pitches: int) -> None:
        super().__init__()
        self.quantizer = Quantizer((*levels, shades))
        self.spectra, self.shades, self.pitches = math.prod(levels), shades, pitches

    @property
    def size(self) -> int:
        return self.spectra * (self.shades + self.pitches)

    def forward(self, latents: Tensor, pitch: Tensor) -> Tensor:
        """Quantised latents in -1..1, with the gradient passed straight through the rounding."""
        return self._without_shade(self.quantizer(latents), pitch)

    def encode(self, latents: Tensor, pitch: Tensor) -> Tensor:
        unvoiced = self.quantizer.encode(latents)
        voiced = unvoiced % self.spectra + self.spectra * (self.shades - 1 + pitch)
        return torch.where(pitch == UNVOICED, unvoiced, voiced)

    def decode(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        """Latents in -1..1 and levels of pitch."""
        pitch = torch.clamp(codes // self.spectra - self.shades + 1, min=UNVOICED)
        latents = self.quantizer.decode(torch.where(pitch == UNVOICED, codes, codes % self.spectra))
        return self._without_shade(latents, pitch), pitch

    def pitch_of_codes(self) -> npt.NDArray[np.int64]:
        """Level of pitch of every code [size]."""
        _, pitch = self.decode(torch.arange(self.size))
        levels: npt.NDArray[np.int64] = pitch.numpy()
        return levels

    @staticmethod
    def _without_shade(latents: Tensor, pitch: Tensor) -> Tensor:
        unvoiced = (pitch == UNVOICED)[..., None].to(latents.dtype)
        return torch.cat([latents[..., :-1], latents[..., -1:] * unvoiced], dim=-1)
