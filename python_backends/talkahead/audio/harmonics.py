"""The voice's source: all harmonics of the pitch at equal strength, in pieces, for a filter to shape.

Shapes: B rows, T frames, S subframes a frame, L samples of a piece.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from talkahead.audio.pitch import UNVOICED_HZ, gap

_HIGHEST_HZ = 7_600.0


class Harmonics(nn.Module):
    """Pieces [B, T * S, L] of about unit power where voiced; piece s of a frame begins with its subframe s.

    A frame's pitch holds at the end of its first subframe, its centre. Between centres the pitch moves in a
    straight line, behind the next centre it stays: a decoder that looks one frame ahead knows no more. With
    phase p, the sum of the first K cosines is sin((2K + 1) pi p) / (2 sin(pi p)) - 1/2 (Dirichlet's kernel).
    """

    path: Tensor
    ramps: Tensor

    def __init__(self, sample_rate_hz: int, hop: int, subframes: int, size: int) -> None:
        super().__init__()
        subhop = hop // subframes
        # Frames from a frame's centre to each sample of its pieces, [S * L].
        place = (
            torch.arange(size) + subhop * (torch.arange(subframes)[:, None] - 1)
        ).flatten().double() / hop
        past, ahead = place.clamp(max=0), place.clamp(0, 1)
        beyond = (place - 1).clamp(min=0)
        # Periods since the centre are linear in the pitch at the gaps' ends: behind, here, onward, there.
        path = torch.stack(
            [
                -past * past / 2,
                past + past * past / 2,
                ahead - ahead * ahead / 2,
                ahead * ahead / 2 + beyond,
                torch.ones_like(place) * sample_rate_hz / hop,
            ]
        )
        # So is loudness in whether the frame before, this one and the one after are voiced.
        way = place.clamp(max=1)
        ramps = torch.stack([(-way).clamp(min=0), 1 - way.abs(), way.clamp(min=0)])
        self.size = size
        self.register_buffer("path", path * hop / sample_rate_hz, persistent=False)
        self.register_buffer("ramps", ramps, persistent=False)

    def forward(self, hertz: Tensor, phases: Tensor) -> Tensor:
        """hertz [B, T], 0 where unvoiced; phases [B, T], in periods, at the frames' centres."""
        turns = self.turns(hertz, phases).to(hertz.dtype)
        count = torch.floor(_HIGHEST_HZ / torch.where(hertz > 0, hertz, UNVOICED_HZ))[..., None]
        pieces = sum_of_cosines(turns, count) * self._loudness(hertz) * torch.rsqrt(count / 2)
        return pieces.reshape(len(hertz), -1, self.size)

    def turns(self, hertz: Tensor, phases: Tensor) -> Tensor:
        """Where in its period the voice is at each sample of the pieces, float64 [B, T, S * L], -1/2..1/2."""
        known = functional.pad(hertz.double(), (1, 1))
        behind, here = gap(known[:, :-2], known[:, 1:-1])
        onward, there = gap(known[:, 1:-1], known[:, 2:])
        turns = torch.stack([behind, here, onward, there, phases.double()], dim=-1) @ self.path.double()
        return turns - turns.round()

    def _loudness(self, hertz: Tensor) -> Tensor:
        """1 at voiced centres, 0 at others, straight lines between, [B, T, S * L]."""
        voiced = functional.pad((hertz > 0).to(hertz.dtype), (1, 1))
        around = torch.stack([voiced[:, :-2], voiced[:, 1:-1], voiced[:, 2:]], dim=-1)
        return around @ self.ramps.to(hertz.dtype)


def sum_of_cosines(turns: Tensor, count: Tensor) -> Tensor:
    """Sum of cos(2 pi k turns) for k = 1..count, turns in -1/2..1/2."""
    below = torch.sin(math.pi * turns)
    is_peak = below.abs() < 1e-4
    above = torch.sin((2 * count + 1) * math.pi * turns)
    return torch.where(is_peak, count, above / (2 * torch.where(is_peak, 1.0, below)) - 0.5)
