"""How another voice sounds: the spectra of a speaker, as if they came from a longer or shorter throat.

The voice's filter follows the harmonics of the speaker's own pitch, so it is smoothed before other harmonics
go through it: by its cepstrum, of which only what is below `_QUEFRENCY` is kept. Without that, naturalness
(DNSMOS p808) of a voice at 0.6 of the pitch was 3.38 instead of 3.75, beside 3.95 of the speaker's own.

Shapes: K bins.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from talkahead.families.phonemic.spectral_decoder import Spectra, SpectralConfig
from talkahead.families.phonemic.voice import Voice

_QUEFRENCY_S = 70 / 24_000
_FADED = 0.2
"""Share of the kept cepstrum that fades out."""


class Timbre(nn.Module):
    """Spectra of a speaker, [..., K] each, to those of a voice made of it."""

    smooth: Tensor
    """[K, K]: smoothed and moved."""
    below: Tensor
    """[K]: the place that each bin is taken from, rounded down; `share` of the next one is added."""
    share: Tensor
    nearest: Tensor

    def __init__(self, config: SpectralConfig, voice: Voice) -> None:
        super().__init__()
        last = config.bins - 1
        places = (torch.arange(config.bins, dtype=torch.float64) / voice.formants).clamp(max=last)
        self.register_buffer("below", places.long().clamp(max=last - 1), persistent=False)
        self.register_buffer("share", (places - self.below).float(), persistent=False)
        self.register_buffer("nearest", places.round().long(), persistent=False)
        each = smoothed(torch.eye(config.bins, dtype=torch.float64), _QUEFRENCY_S * config.sample_rate_hz)
        self.register_buffer("smooth", self._moved(each).float(), persistent=False)
        self.pitch = voice.pitch

    def forward(self, spectra: Spectra) -> Spectra:
        return Spectra(
            voice=spectra.voice @ self.smooth,
            breath=self._moved(spectra.breath),
            rest=self._moved(spectra.rest),
            phase=spectra.phase[..., self.nearest],
        )

    def _moved(self, values: Tensor) -> Tensor:
        low, high = values[..., self.below], values[..., self.below + 1]
        return low + (high - low) * self.share.to(values.dtype)


def smoothed(log_magnitudes: Tensor, quefrency: float) -> Tensor:
    """Of [..., K], without what varies faster from bin to bin than a cepstrum up to `quefrency` samples."""
    mirrored = torch.cat([log_magnitudes, log_magnitudes[..., 1:-1].flip(-1)], dim=-1)
    size = mirrored.shape[-1]
    place = torch.arange(size, dtype=log_magnitudes.dtype)
    beyond = torch.minimum(place, size - place) / quefrency - (1 - _FADED)
    kept = 0.5 + 0.5 * torch.cos(math.pi * (beyond / _FADED).clamp(0, 1))
    kept_alone: Tensor = torch.fft.fft(torch.fft.ifft(mirrored) * kept).real
    return kept_alone[..., : log_magnitudes.shape[-1]]
