"""What one configuration gains over another that was measured by turns with it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Self

from talkahead.draft_training.bootstrap import bootstrap_interval

from perf import part
from perf.part import Part

Figure = Callable[[Sequence[Part]], float]


@dataclass(frozen=True)
class Ratio:
    """With a 95 % interval, by drawing parts again, those of both configurations together (bootstrap): what
    the machine did meanwhile differs more between parts than within one."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, figure: Figure, above: Sequence[Part], below: Sequence[Part]) -> Self:
        """Of a figure of two configurations' parts, which were run in pairs."""

        def ratio(pick: Sequence[int]) -> float:
            return part.ratio(figure([above[at] for at in pick]), figure([below[at] for at in pick]))

        return cls(ratio(range(len(above))), *bootstrap_interval(ratio, len(above)))

    @property
    def is_noise(self) -> bool:
        """Whether it cannot be told from 1."""
        return not (self.low > 1 or self.high < 1)

    def __str__(self) -> str:
        return f"{self.value:.2f}x ({self.low:.2f} to {self.high:.2f})"


@dataclass(frozen=True)
class Gain:
    """A configuration's figures over the other's.

    Args:
        over: the other configuration.
        talker_speed: audio for the talker's decoding time.
        audio_s_per_s: as much as arrives; of playing streams, what they play.
        first_chunk_p50, first_chunk_p95: below 1, it comes sooner.
    """

    over: str
    talker_speed: Ratio
    audio_s_per_s: Ratio
    first_chunk_p50: Ratio
    first_chunk_p95: Ratio

    @classmethod
    def of(cls, own: Sequence[Part], over: str, other: Sequence[Part]) -> Self:
        first_p50, first_p95 = (partial(part.first_chunk_ms, share=share) for share in (0.5, 0.95))
        return cls(
            over=over,
            talker_speed=Ratio.of(part.decode_s_per_audio_s, other, own),
            audio_s_per_s=Ratio.of(part.audio_s_per_s, own, other),
            first_chunk_p50=Ratio.of(first_p50, own, other),
            first_chunk_p95=Ratio.of(first_p95, own, other),
        )

    @property
    def is_faster(self) -> bool:
        return self.talker_speed.low > 1

    @property
    def verdict(self) -> str:
        """On the talker's speed."""
        if math.isnan(self.talker_speed.value):
            return "not measured"
        if self.talker_speed.is_noise:
            return "nothing beyond noise"
        return "faster" if self.is_faster else "slower"

    def __str__(self) -> str:
        return f"{self.talker_speed}, {self.verdict}"
