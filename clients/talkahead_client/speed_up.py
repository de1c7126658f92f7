"""What drafting ahead brings: the same text, with and without, from the same server, by turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Self

import numpy as np
import numpy.typing as npt

from talkahead_client.protocol import DRAFTING, PLAIN, ParameterValue, Stats

REPEATS = 3
"""Of either kind: one sentence takes too few steps to tell a tenth."""
LONGEST_S = 10.0
"""Speech of a repeat at most, in seconds."""
SAME_AUDIO = 1e-5
"""Full scale; the same tokens decode to within 1e-6, others differ by a thousand times more."""

Parameters = Mapping[str, ParameterValue]


@dataclass(frozen=True)
class Spoken:
    """A whole utterance: its audio [samples], and the server's totals."""

    audio: npt.NDArray[np.float32]
    stats: Stats


@dataclass(frozen=True)
class SpeedUp:
    """How a pair of drafter and verifier did against plain decoding with the same seed."""

    pair: str
    """`heads+match`."""
    tokens_per_step: float
    ms_per_token: float
    """What the talker spent decoding."""
    times_plain: float
    """What plain decoding spent on a token, over that."""
    is_same_speech: bool
    """Every repeat said exactly what plain decoding said."""
    is_draft: bool = True
    """False: nothing was drafted ahead, so there was nothing to compare."""
    is_default: bool = False
    """The request named no pair, so it is the server's."""

    @classmethod
    def of(cls, drafted: Sequence[Spoken], plain: Sequence[Spoken], *, is_default: bool) -> Self:
        """From utterances of either kind, each with the one that was spoken beside it: medians."""
        pairs = list(zip(drafted, plain, strict=True))
        return cls(
            pair=drafted[0].stats.pair,
            tokens_per_step=median(one.stats.tokens_per_step for one in drafted),
            ms_per_token=median(one.stats.decode_us_per_token for one in drafted) / 1e3,
            times_plain=median(
                other.stats.decode_us_per_token / one.stats.decode_us_per_token for one, other in pairs
            ),
            is_same_speech=all(_is_same(one.audio, other.audio) for one, other in pairs),
            is_default=is_default,
        )

    @classmethod
    def none(cls, stats: Stats, *, is_default: bool) -> Self:
        """Of an utterance for which nothing was drafted."""
        ms_per_token = stats.decode_us_per_token / 1e3
        return cls(stats.pair, 1.0, ms_per_token, 1.0, True, is_draft=False, is_default=is_default)

    def __str__(self) -> str:
        if not self.is_draft:
            whose, why = "", "nothing was drafted ahead"
            if self.is_default:
                whose, why = ", the server's default", "drafting ahead does not pay there (talkahead doctor)"
            return f"{self.pair}{whose}: plain decoding, {self.ms_per_token:.2f} ms a token; {why}"
        return (
            f"{self.pair}: {self.tokens_per_step:.2f} tokens a step, {self.times_plain:.2f}x plain decoding "
            f"({'same' if self.is_same_speech else 'other'} tokens)"
        )


def measure_speed_up(speak: Callable[[Parameters], Spoken], parameters: Parameters, stats: Stats) -> SpeedUp:
    """Speaks a few seconds several times as asked and several times plainly, by turns, all with one seed.

    Args:
        speak: says the text with some parameters.
        parameters: with which it has been spoken once.
        stats: of that utterance; where nothing was drafted, nothing is repeated.
    """
    is_default = parameters.keys().isdisjoint(PLAIN)
    if not stats.drafted:
        return SpeedUp.none(stats, is_default=is_default)
    longest = min(float(parameters.get("max_seconds", LONGEST_S)), LONGEST_S)
    asked = {**parameters, "seed": stats.seed, "max_seconds": longest}
    plainly = {**{name: value for name, value in asked.items() if name not in DRAFTING}, **PLAIN}
    drafted, plain = [], []
    for _ in range(REPEATS):
        drafted.append(speak(asked))
        plain.append(speak(plainly))
    return SpeedUp.of(drafted, plain, is_default=is_default)


def _is_same(one: npt.NDArray[np.float32], other: npt.NDArray[np.float32]) -> bool:
    return one.shape == other.shape and bool((np.abs(one - other) < SAME_AUDIO).all())
