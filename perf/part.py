"""A load, run once: the piece that measurements by turns are made of."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from talkahead_client import Figures

from perf.utterance import Utterance


@dataclass(frozen=True)
class Part:
    """What was spoken in one go.

    Args:
        wall_s: from the first request to the end of the last utterance (playing: until it has been played).
        begins_at_once: all streams sent their first request at the same moment.
        generator_share: of one core, that asking and hearing took.
    """

    wall_s: float
    utterances: list[Utterance]
    begins_at_once: bool = False
    generator_share: float = 0.0

    @cached_property
    def full_s(self) -> float:
        """Until the first stream had spoken its last: then the load is no longer full."""
        ends: dict[int, float] = {}
        for one in self.utterances:
            ends[one.stream] = max(one.ended_s, ends.get(one.stream, 0.0))
        return min(ends.values())

    @cached_property
    def audio_s(self) -> float:
        """That arrived under the full load."""
        return sum(one.audio_until(self.full_s) for one in self.utterances)

    @cached_property
    def decoding(self) -> tuple[float, float]:
        """Seconds of decoding and of audio, of the utterances that ended under the full load."""
        whole = [
            (one.stats.decode_us / 1e6, one.figures.audio_s)
            for one in self.utterances
            if one.stats is not None and one.figures is not None and one.ended_s <= self.full_s
        ]
        return sum(decode_s for decode_s, _ in whole), sum(audio_s for _, audio_s in whole)

    @property
    def burst(self) -> list[Figures]:
        """Of the first request of each stream, where all were sent at once: these meet one another, and not
        the load that follows. None where nothing follows."""
        return self._apart[0]

    @property
    def under_load(self) -> list[Figures]:
        """Of all other requests."""
        return self._apart[1]

    @cached_property
    def _apart(self) -> tuple[list[Figures], list[Figures]]:
        begun: set[int] = set()
        first: list[Utterance] = []
        others: list[Utterance] = []
        for one in self.utterances:
            (others if one.stream in begun or not self.begins_at_once else first).append(one)
            begun.add(one.stream)
        burst, under_load = (
            [one.figures for one in each if one.figures is not None] for each in (first, others)
        )
        return (burst, under_load) if others else ([], burst)


def audio_s_per_s(parts: Sequence[Part]) -> float:
    return ratio(sum(part.audio_s for part in parts), sum(part.full_s for part in parts))


def decode_s_per_audio_s(parts: Sequence[Part]) -> float:
    """What the talker spent on a second of audio, drafts included; a step counts for each of its streams."""
    decode_s, audio_s = (sum(part.decoding[place] for part in parts) for place in (0, 1))
    return ratio(decode_s, audio_s)


def first_chunk_ms(parts: Sequence[Part], share: float) -> float:
    """A quantile of all parts' utterances together, but for the bursts that parts begin with."""
    samples = [one.first_chunk_ms for part in parts for one in part.under_load]
    return float(np.quantile(samples, share)) if samples else math.nan


def ratio(one: float, other: float) -> float:
    """NaN where there is nothing to divide by."""
    return one / other if other else math.nan
