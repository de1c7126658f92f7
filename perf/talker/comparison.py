"""Talkers that speak the same batches by turns, and who was the fastest of each kind."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from talkahead.config import RequestOptions

from perf.talker.talker import Prompt, Talker


@dataclass(frozen=True)
class Run:
    """One batch, spoken once."""

    frames: int
    seconds: float

    @property
    def frames_per_s(self) -> float:
        return self.frames / self.seconds


@dataclass(frozen=True)
class Contender:
    """A kind of talker in one precision, made for a number of streams."""

    kind: str
    precision: str
    make: Callable[[int], Talker]


@dataclass(frozen=True)
class Score:
    """How a contender did."""

    kind: str
    precision: str
    frames_per_s: float
    """Median over the repeats."""
    runs: list[Run]

    def __str__(self) -> str:
        return f"{self.frames_per_s:.0f} frames/s, {self.precision}"


@dataclass(frozen=True)
class Comparison:
    """One number of streams; of each kind, the fastest precision counts.

    Args:
        scores: of every contender; the first's kind is set beside the others.
        ratios: of that kind to each other, medians over repeats of which each runs all.
    """

    streams: int
    scores: list[Score]
    ratios: dict[str, float]

    @classmethod
    def of(cls, streams: int, scores: Sequence[Score]) -> Comparison:
        own, *others = best(scores).values()
        ratios = {
            other.kind: median(
                mine.frames_per_s / its.frames_per_s for mine, its in zip(own.runs, other.runs, strict=True)
            )
            for other in others
        }
        return cls(streams, list(scores), ratios)

    def row(self, kinds: Sequence[str]) -> dict[str, str]:
        """With a column for every kind; that of one that is missing here is empty."""
        fastest = best(self.scores)
        ratios = {kind: f"{ratio:.2f}" for kind, ratio in self.ratios.items()}
        return {
            "streams": str(self.streams),
            **{kind: str(fastest.get(kind, "")) for kind in kinds},
            **{f"over {kind}": ratios.get(kind, "") for kind in kinds[1:]},
            "repeats": str(len(self.scores[0].runs)),
        }


def best(scores: Sequence[Score]) -> dict[str, Score]:
    """The fastest of each kind, in the order of first appearance."""
    fastest: dict[str, Score] = {}
    for score in scores:
        if score.kind not in fastest or score.frames_per_s > fastest[score.kind].frames_per_s:
            fastest[score.kind] = score
    return fastest


def compare(
    contenders: Sequence[Contender],
    prompts: Sequence[Prompt],
    options: RequestOptions,
    streams: int,
    repeats: int,
) -> Comparison:
    """Runs all by turns on the same batches, after one batch each that nobody counts."""
    talkers = [contender.make(streams) for contender in contenders]
    runs: list[list[Run]] = [[] for _ in talkers]
    for repeat in range(-1, repeats):
        batch = [prompts[(repeat * streams + index) % len(prompts)] for index in range(streams)]
        for talker, own in zip(talkers, runs, strict=True):
            run = _timed(talker, batch, options, seed=1000 * (repeat + 1))
            if repeat >= 0:
                own.append(run)
    for talker in talkers:
        talker.close()
    scores = [
        Score(contender.kind, contender.precision, median(run.frames_per_s for run in own), own)
        for contender, own in zip(contenders, runs, strict=True)
    ]
    return Comparison.of(streams, scores)


def _timed(talker: Talker, batch: Sequence[Prompt], options: RequestOptions, seed: int) -> Run:
    began = time.perf_counter()
    spoken = talker.speak(batch, options, seed)
    return Run(sum(map(len, spoken)), time.perf_counter() - began)
