"""What speaks of SNAC, as one network: each block computes what is heard in the samples asked for, and
no more.

Shapes: B windows, W frames of 7 codes, 4 * W latents; a block raises the rate of what it is given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from snac import SNAC

LEVELS = ([0], [1, 4], [2, 3, 5, 6])
"""Places of the coarse, the middle and the fine codes in a frame."""
_CONVOLUTION, _NOISE = 1, 2
"""Places in a block; without noise the residual layers begin at its place."""


class SnacNetwork(nn.Module):
    """Of a library's model. `forward`: codes [B, W, 7] to audio [B, N].

    It is told of each block which it is given of the samples that are there, int64 [K]; then of each block,
    where they have any, the noise of what it makes of them, [B, 1, K * rate].
    """

    def __init__(self, model: SNAC) -> None:
        super().__init__()
        self.quantizer, self.blocks = model.quantizer, nn.ModuleList(blocks_of(model))
        layers = list(model.decoder.model)
        first = next(place for place, part in enumerate(layers) if hasattr(part, "block"))
        self.before = nn.Sequential(*layers[:first])
        self.behind = nn.Sequential(*layers[first + len(self.blocks) :])

    @property
    def precision(self) -> torch.dtype:
        dtype: torch.dtype = next(self.parameters()).dtype
        return dtype

    def forward(self, codes: Tensor, *told: Tensor) -> tuple[Tensor]:
        given, noise = told[: len(self.blocks)], told[len(self.blocks) :]
        # Place by place: a list of them would be copied to a device, which cannot be recorded.
        levels = [torch.stack([codes[:, :, place] for place in level], 2).flatten(1) for level in LEVELS]
        signal = self.before(self.quantizer.from_codes(levels))
        for place, block in enumerate(self.blocks):
            signal = _run(cast(Any, block), signal.index_select(2, given[place]), noise[place : place + 1])
        return (self.behind(signal)[:, 0],)


def _run(block: nn.Sequential, signal: Tensor, noise: tuple[Tensor, ...]) -> Tensor:
    signal = block[:_NOISE](signal)
    for one in noise:
        signal = signal + one.to(signal.dtype) * cast(Any, block[_NOISE]).linear(signal)
    made: Tensor = block[_NOISE + len(noise) :](signal)
    return made


def blocks_of(model: SNAC) -> list[nn.Sequential]:
    """Of the decoder: activation, transposed convolution, noise, residual layers."""
    return [part.block for part in model.decoder.model if hasattr(part, "block")]


def rate_of(block: nn.Sequential) -> int:
    return cast(nn.ConvTranspose1d, block[_CONVOLUTION]).stride[0]


def has_noise(block: nn.Sequential) -> bool:
    return hasattr(block[_NOISE], "linear")
