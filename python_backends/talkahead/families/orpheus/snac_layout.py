"""Which samples each of SNAC's blocks is given to speak a part of a window, and their noise.

Shapes: B windows, W frames.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from operator import mul
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from talkahead.audio.noise import Noise
from talkahead.families.network_file import NetworkFile
from talkahead.families.orpheus.snac_network import blocks_of, has_noise, rate_of

if TYPE_CHECKING:
    from snac import SNAC

LATENTS = 4
"""Of a frame: what the first block is given."""
_RESIDUAL_REACH = 3 * (1 + 3 + 9)
"""Of a block's three convolutions of seven taps, in the samples that it makes."""
_EDGE_REACH = 3
"""Of the convolutions before the first block and after the last one."""


@dataclass(frozen=True)
class SnacLayout:
    """Of the decoder's blocks.

    Args:
        rates: by which each raises the rate of its samples.
        has_noise: each adds some.
    """

    rates: tuple[int, ...]
    has_noise: bool

    @classmethod
    def of(cls, model: SNAC) -> SnacLayout:
        blocks = blocks_of(model)
        return cls(tuple(map(rate_of, blocks)), has_noise(blocks[0]))

    @property
    def file(self) -> NetworkFile:
        """Of the network."""
        given, noise = (
            [f"{name}_{place}" for place in range(len(self.rates))] for name in ("given", "noise")
        )
        told = (*given, *(noise if self.has_noise else ()))
        return NetworkFile("codec.onnx", "model.safetensors", ("codes", *told), ("audio",))

    @property
    def sizes(self) -> list[int]:
        """Samples of a frame: latents, then after each block."""
        return list(accumulate(self.rates, mul, initial=LATENTS))

    @property
    def hop(self) -> int:
        return self.sizes[-1]

    @property
    def reach_frames(self) -> int:
        """Frames before and after a frame that are heard in it."""
        heard = self._endless(range(self.hop))[0]
        return math.ceil((max(-heard.start, heard.stop - LATENTS) + _EDGE_REACH) / LATENTS)

    def told(self, numbers: Tensor, given: Sequence[range]) -> list[Tensor]:
        """What the network is told besides codes.

        Args:
            numbers: of the frames in their utterances, int64 [B, W].
        """
        return [*self._places(given), *self._noise(numbers, given)]

    def given(self, audio: range, frames: int) -> list[range]:
        """What each block is given, of all samples of a window at its rate, to speak a span of the audio."""
        rooms = [frames * size for size in self.sizes]
        return [
            range(max(span.start, 0), min(span.stop, room))
            for span, room in zip(self._endless(audio), rooms, strict=False)
        ]

    def _endless(self, audio: range) -> list[range]:
        """As `given`, of a window without ends."""
        spans = []
        first, last = audio.start - _EDGE_REACH, audio.stop - 1 + _EDGE_REACH
        for rate in reversed(self.rates):
            # A transposed convolution lays two of the samples that it is given over each other.
            shift = math.ceil(rate / 2)
            first = (first - _RESIDUAL_REACH + shift) // rate - 1
            last = (last + _RESIDUAL_REACH + shift) // rate
            spans.append(range(first, last + 1))
        return spans[::-1]

    def _places(self, given: Sequence[range]) -> list[Tensor]:
        """Where the blocks find what they are given in what the one before each made, int64 [K]."""
        starts = [0, *(span.start * rate for span, rate in zip(given, self.rates, strict=True))]
        return [
            torch.arange(span.start, span.stop) - start for span, start in zip(given, starts, strict=False)
        ]

    def _noise(self, numbers: Tensor, given: Sequence[range]) -> Iterator[Tensor]:
        """Of what each block makes, [B, 1, K * rate]: keyed by the frame, so that it is the same however an
        utterance is cut."""
        for place, table in enumerate(self._tables):
            span, rate = given[place], self.rates[place]
            noise = table.to(numbers.device)(numbers * len(self._tables) + place).flatten(1)
            yield noise[:, None, span.start * rate : span.stop * rate]

    @cached_property
    def _tables(self) -> list[Noise]:
        return [Noise(subframes=1, size=size) for size in self.sizes[1:]] if self.has_noise else []
