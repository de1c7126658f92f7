"""The speed pass: a method and plain decoding by turns, on the same sentences with the same seeds.

Times are the decoding thread's own CPU seconds (it does everything), so that a busy machine shows through its
caches and clock alone; wall seconds are kept beside them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from statistics import median
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from talkahead.backbone.backbone import Backbone
from talkahead.engine.decode_step import Admission, DecodeStep, Drawn
from talkahead.engine.native_steps import Stop
from talkahead.speculation.contracts import Accepted, Context, Drafter, Scored, Verifier
from talkahead.speculation.token_tree import TokenTree

from perf.speculation.methods import PLAIN, Method
from perf.speculation.runner import Loop, Runner

AGREES = 0.1
"""Speed is accounted for when it is that near to A / rho."""
_WARM_UP = 4
"""Sentences that nobody counts."""


class Stopwatch:
    """CPU seconds of this thread by what they went into, and the rows that steps decoded."""

    def __init__(self) -> None:
        self.prompts_s = self.steps_s = self.drafts_s = 0.0
        self.row_steps = 0

    @contextmanager
    def drafting(self) -> Iterator[None]:
        began = time.thread_time()
        yield
        self.drafts_s += time.thread_time() - began


class TimedStep(DecodeStep):
    """Tells how long it took, all in one call where it is as it is served."""

    def __init__(self, watch: Stopwatch, backbone: Backbone, drafter: Drafter, verifier: Verifier) -> None:
        super().__init__(backbone, drafter, verifier)
        self._watch = watch

    def admit(self, admissions: list[Admission]) -> npt.NDArray[np.int64]:
        began = time.thread_time()
        firsts = super().admit(admissions)
        self._watch.prompts_s += time.thread_time() - began
        return firsts

    def run(self, slots: Sequence[int], stop: Stop | None = None) -> Drawn:
        began = time.thread_time()
        drawn = super().run(slots, stop)
        self._watch.steps_s += time.thread_time() - began
        self._watch.row_steps += drawn.by_step.size
        return drawn


class StepInParts(TimedStep):
    """Taken operation by operation, so that its drafter can be timed."""

    def __init__(self, watch: Stopwatch, backbone: Backbone, drafter: Drafter, verifier: Verifier) -> None:
        super().__init__(watch, backbone, _TimedDrafter(drafter, watch), verifier)


class _TimedDrafter:
    """A drafter whose share of a step is taken."""

    def __init__(self, drafter: Drafter, watch: Stopwatch) -> None:
        self._drafter = drafter
        self._watch = watch
        self.sees_prompt = drafter.sees_prompt
        self.admit, self.release = drafter.admit, drafter.release
        self.can_replay, self.replayed = drafter.can_replay, drafter.replayed

    def propose(self, context: Context) -> TokenTree:
        with self._watch.drafting():
            return self._drafter.propose(context)

    def calls(self, context: Context) -> None:
        """None: within a call from C its share could not be taken."""
        return None

    def observe(self, tree: TokenTree, scored: Scored, accepted: Accepted, context: Context) -> None:
        with self._watch.drafting():
            self._drafter.observe(tree, scored, accepted, context)


@dataclass(frozen=True)
class Run:
    """All sentences, spoken once.

    Args:
        frames: that a listener hears.
        committed: tokens that steps drew, the end of speech among them, the first of an utterance not.
        row_steps: steps times rows.
        drafts_s: of `steps_s`; 0 where steps are one call.
    """

    frames: int
    committed: int
    row_steps: int
    cpu_s: float
    wall_s: float
    prompts_s: float
    steps_s: float
    drafts_s: float

    @property
    def step_s(self) -> float:
        """Of one row."""
        return self.steps_s / self.row_steps


@dataclass(frozen=True)
class Speed:
    """A method and plain decoding, repeat by repeat, `streams` at once.

    Args:
        in_parts: the method once more, in steps whose drafter is timed.
    """

    streams: int
    plain: tuple[Run, ...]
    own: tuple[Run, ...]
    in_parts: Run

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        runs = {name: tuple(Run(**run) for run in fields[name]) for name in ("plain", "own")}
        return cls(fields["streams"], **runs, in_parts=Run(**fields["in_parts"]))

    @property
    def speedups(self) -> list[float]:
        """Frames per CPU second over plain's of the same repeat."""
        return _ratios([run.frames / run.cpu_s for run in runs] for runs in (self.own, self.plain))

    @property
    def wall_speedups(self) -> list[float]:
        return _ratios([run.frames / run.wall_s for run in runs] for runs in (self.own, self.plain))

    @property
    def frames_per_s(self) -> float:
        return median(run.frames / run.cpu_s for run in self.own)

    @property
    def committed_per_step(self) -> float:
        return sum(run.committed for run in self.own) / sum(run.row_steps for run in self.own)

    @property
    def rho(self) -> float:
        """A step's cost over a plain step's: median of the repeats' own ratios."""
        return median(_ratios([run.step_s for run in runs] for runs in (self.own, self.plain)))

    @property
    def rho_draft(self) -> float:
        """The drafter's part of it, by its share of steps in parts."""
        return self.rho * self.in_parts.drafts_s / self.in_parts.steps_s

    @property
    def expected(self) -> float:
        """A / rho: the speed if there were steps alone."""
        return self.committed_per_step / self.rho

    @property
    def note(self) -> str:
        """Where the time went when speed is not what steps let expect; else nothing."""
        if abs(median(self.speedups) / self.expected - 1) <= AGREES:
            return ""
        return "; ".join(
            f"{name}: {_share([run.prompts_s for run in runs], runs):.0f} % of the time in prompts, "
            f"{_share([run.steps_s for run in runs], runs):.0f} % in steps"
            for name, runs in (("own", self.own), ("plain", self.plain))
        )


def _ratios(sides: Iterator[list[float]]) -> list[float]:
    ours, theirs = sides
    return [one / other for one, other in zip(ours, theirs, strict=True)]


def _share(seconds: Sequence[float], runs: Sequence[Run]) -> float:
    return 100 * sum(seconds) / sum(run.cpu_s for run in runs)


def measure(runner: Runner, method: Method, streams: int, sentences: int, seeds: Sequence[int]) -> Speed:
    """Both loops by turns, a seed at a time; who begins takes turns as well."""
    sides = {"plain": (PLAIN, runner.loop(PLAIN, streams)), "own": (method, runner.loop(method, streams))}
    runs: dict[str, list[Run]] = {name: [] for name in sides}
    for who, loop in sides.values():
        _run(runner, loop, who, _WARM_UP, seeds[0])
    for turn, seed in enumerate(seeds):
        for name in sorted(sides, reverse=bool(turn % 2)):
            who, loop = sides[name]
            runs[name].append(_run(runner, loop, who, sentences, seed))
    in_parts = _run(runner, sides["own"][1], method, sentences, seeds[0], StepInParts)
    return Speed(streams, tuple(runs["plain"]), tuple(runs["own"]), in_parts)


def _run(
    runner: Runner,
    loop: Loop,
    method: Method,
    sentences: int,
    seed: int,
    step: type[TimedStep] = TimedStep,
) -> Run:
    watch = Stopwatch()
    wall, cpu = time.perf_counter(), time.thread_time()
    said = runner.speak(loop, method, range(sentences), seed, partial(step, watch))
    cpu, wall = time.thread_time() - cpu, time.perf_counter() - wall
    tokens = sum(len(one.tokens) for one in said)
    return Run(
        frames=tokens - sum(one.tokens[-1] == loop.decoder.eos for one in said),
        committed=tokens - len(said),
        row_steps=watch.row_steps,
        cpu_s=cpu,
        wall_s=wall,
        prompts_s=watch.prompts_s,
        steps_s=watch.steps_s,
        drafts_s=watch.drafts_s,
    )


def as_json(speed: Speed) -> dict[str, Any]:
    return asdict(speed)
