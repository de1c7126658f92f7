"""What tells the codec's speech from the teacher's: spectra at several resolutions, seen by convolutions.

After Défossez et al. 2022 (EnCodec, section 3.4: multi-scale STFT discriminator, hinge loss and relative
feature matching), with fewer channels.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.parametrizations import weight_norm

_SLOPE = 0.2
_SILENCE = 1e-3


@dataclass(frozen=True)
class Judgement:
    """Scores of one resolution, above 0 for what seems real, and the layers' outputs on the way there."""

    scores: Tensor
    features: tuple[Tensor, ...]


class SpectrumDiscriminator(nn.Module):
    """Convolutions over one resolution's spectrum. audio [B, N] -> Judgement."""

    window: Tensor

    def __init__(self, num_fft: int, channels: int) -> None:
        super().__init__()
        self.num_fft = num_fft
        self.register_buffer("window", torch.hann_window(num_fft), persistent=False)
        sizes = (3, channels, channels, channels, channels)
        self.layers = nn.ModuleList(
            weight_norm(nn.Conv2d(sizes[i], sizes[i + 1], (9, 3), (1 if i == 0 else 2, 1), (4, 1)))
            for i in range(4)
        )
        self.last = weight_norm(nn.Conv2d(channels, 1, 3, padding=1))

    def forward(self, audio: Tensor) -> Judgement:
        spectrum = torch.stft(audio, self.num_fft, self.num_fft // 4, window=self.window, return_complex=True)
        rows = _compressed(spectrum)
        features = []
        for layer in self.layers:
            rows = functional.leaky_relu(layer(rows), _SLOPE)
            features.append(rows)
        return Judgement(self.last(rows), tuple(features))


def _compressed(spectrum: Tensor) -> Tensor:
    """Log-magnitude, real and imaginary part of complex [B, bins, frames], all of the size of 1: [B, 3, ...].

    As they are, speech's high frequencies are a thousandth of its low ones, and no layer would look at them.
    """
    parts = torch.view_as_real(spectrum)
    power = parts.square().sum(-1) + _SILENCE**2
    level = (power.log() / 2 + 3.0) / 3.0
    return torch.stack([level, *(parts * power[..., None] ** -0.35).unbind(-1)], dim=1)


class Discriminator(nn.Module):
    """One `SpectrumDiscriminator` a resolution. audio [B, N] -> their judgements."""

    def __init__(self, sizes: tuple[int, ...] = (1024, 512, 256), channels: int = 16) -> None:
        super().__init__()
        self.parts = nn.ModuleList(SpectrumDiscriminator(size, channels) for size in sizes)

    def forward(self, audio: Tensor) -> list[Judgement]:
        return [part(audio) for part in self.parts]


def discriminator_loss(real: list[Judgement], made: list[Judgement]) -> Tensor:
    """Hinge: real above 1, made below -1."""
    terms = [
        functional.relu(1 - r.scores.float()).mean() + functional.relu(1 + m.scores.float()).mean()
        for r, m in zip(real, made, strict=True)
    ]
    return torch.stack(terms).mean()


def deception_loss(made: list[Judgement]) -> Tensor:
    """What the maker is told: be scored above 1."""
    return torch.stack([functional.relu(1 - m.scores.float()).mean() for m in made]).mean()


def feature_distance(real: list[Judgement], made: list[Judgement]) -> Tensor:
    """L1 between the layers' outputs, relative to their size, over all layers and resolutions."""
    terms = [
        functional.l1_loss(ours.float(), theirs.float().detach()) / theirs.float().detach().abs().mean()
        for r, m in zip(real, made, strict=True)
        for ours, theirs in zip(m.features, r.features, strict=True)
    ]
    return torch.stack(terms).mean()
