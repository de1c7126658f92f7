"""Measures rows, each part of a row once: what earlier runs have kept is read, not measured again."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from statistics import median
from typing import Any, Self

from perf.speculation import quality, speed
from perf.speculation.evaluation import Evaluation
from perf.speculation.kept import Kept
from perf.speculation.methods import PLAIN, Method
from perf.speculation.plan import Part, Plan, tree_plans
from perf.speculation.quality import Quality, Speech, WorkerContext
from perf.speculation.speed import Speed
from perf.speculation.surprise import Surprise, surprise


@dataclass(frozen=True)
class Scale:
    """How much is measured: sentences of headlines, of sweeps, and of the speed pass; streams; seeds."""

    sentences: int
    sweep_sentences: int
    timed_sentences: int
    streams: tuple[int, ...]
    seeds: tuple[int, ...]
    sweep_seeds: tuple[int, ...]
    tree_seeds: tuple[int, ...]


@dataclass(frozen=True)
class Row:
    """One method at one number of streams. What was not measured is None.

    Args:
        drafter, verifier, options: as a request names them; `draft` is the folder of the drafter's weights.
        mean_size: of the groups, in tokens.
        speedup: frames per CPU second over plain decoding's, median over seeds; the lowest and highest too.
        committed_per_step: A, the root included.
        rho: the cost of a step over a plain one's; the target's part of it, and the drafter's.
        expected: A / rho; `note` says where the time went when speed is more than a tenth away from it.
        quality: at one stream's settings; `quality_options` where they differ from this row's. Its sentences
            are told once, in the row with the fewest streams.
    """

    title: str
    part: str
    talker: str
    drafter: str
    draft: str
    verifier: str
    options: Mapping[str, int | float]
    mean_size: float | None
    preserves: str
    streams: int
    speedup: float | None
    speedup_low: float | None
    speedup_high: float | None
    wall_speedup: float | None
    frames_per_s: float | None
    committed_per_step: float | None
    rho: float | None
    rho_target: float | None
    rho_draft: float | None
    expected: float | None
    note: str
    quality_options: Mapping[str, int | float] | None
    quality: Quality | None
    speed: Speed | None
    hashes: Mapping[str, str]
    """Of the files that it depends on."""

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        heard, timed = fields["quality"], fields["speed"]
        parts = {
            "quality": Quality.from_json(heard) if heard else None,
            "speed": Speed.from_json(timed) if timed else None,
        }
        return cls(**{**fields, **parts})


class Bench:
    """Everything that rows share: what speaks and hears, what is kept, and the trees chosen by measurement.

    Args:
        pool: processes for the quality pass, `workers` of them.
    """

    def __init__(
        self, context: WorkerContext, scale: Scale, kept: Kept, pool: Executor, workers: int
    ) -> None:
        self._context = context
        self._runner = context.runner
        self._scale = scale
        self._kept = kept
        self._pool = pool
        self._workers = workers
        self._speeds: dict[tuple[str, int], Speed] = {}
        self._speeches: dict[str, Speech] = {}

    def surprise(self) -> Surprise:
        key = self._key("surprise", PLAIN, sentences=self._scale.timed_sentences)
        return Surprise(
            **self._kept.get(key, lambda: asdict(surprise(self._runner, self._scale.timed_sentences)))
        )

    def teacher(self) -> list[Evaluation]:
        return quality.teacher_speech(self._pool, self._workers, self._context, self._scale.sentences)

    # Speed

    @cached_property
    def trees(self) -> dict[tuple[str, int], int]:
        """The fastest number of nodes by draft and streams."""
        found: dict[tuple[str, int], dict[int, float]] = {}
        for plan in tree_plans(self._runner.found):
            for streams in self._scale.streams:
                timed = self._speed(plan.method, streams, self._scale.tree_seeds)
                sizes = found.setdefault((plan.method.draft, streams), {})
                sizes[plan.method.nodes or 1] = median(timed.speedups)
        return {key: max(sizes, key=lambda nodes: sizes[nodes]) for key, sizes in found.items()}

    def settled(self, method: Method, streams: int) -> Method:
        """With the tree that is best for so many streams, if it drafts trees and is not told which."""
        nodes = self.trees.get((method.draft, streams)) if method.drafter == "heads" else None
        return method if nodes is None or method.nodes else method.having(nodes=nodes)

    def time(self, plan: Plan) -> None:
        """The speed pass of one row, at every number of streams that is asked of it."""
        scale = self._scale
        if not plan.is_timed:
            return
        if plan.part is Part.NODES:
            every, seeds = scale.streams, scale.tree_seeds
        elif plan.is_headline:
            every, seeds = scale.streams, scale.seeds
        else:
            every, seeds = scale.streams[:1], scale.sweep_seeds
        for streams in every:
            method = self.settled(plan.method, streams)
            self._speeds[plan.method.title, streams] = self._speed(method, streams, seeds)

    def _speed(self, method: Method, streams: int, seeds: Sequence[int]) -> Speed:
        sentences = self._scale.timed_sentences
        key = self._key("speed", method, streams=streams, sentences=sentences, seeds=list(seeds))

        def make() -> dict[str, Any]:
            made = speed.measure(self._runner, method, streams, sentences, seeds)
            _say(f"{method.title}, {streams} streams: {median(made.speedups):.2f}x")
            return speed.as_json(made)

        return Speed.from_json(self._kept.get(key, make))

    # Quality

    def hear(self, plan: Plan) -> None:
        """The quality pass of one row."""
        if not plan.is_heard:
            return
        scale = self._scale
        is_whole = plan.is_headline or plan.is_heard_whole
        sentences = scale.sentences if is_whole else scale.sweep_sentences
        method = self.settled(plan.method, scale.streams[0])
        key = self._key("quality", method, sentences=sentences, setting=self._context.setting.digest)

        def make() -> dict[str, Any]:
            seed = self._runner.seed
            made = quality.speech(self._pool, self._workers, self._context, method, sentences, seed)
            _say(f"{method.title}: {sentences} sentences, {made.num_heard} heard anew")
            return quality.as_json(made)

        self._speeches[plan.method.title] = Speech.from_json(self._kept.get(key, make))

    def _key(self, measured: str, method: Method, **more: Any) -> dict[str, Any]:  # noqa: ANN401
        runner = self._runner
        return {
            "pass": measured,
            "method": method.to_json(),
            "hashes": runner.found.hashes(method),
            "sampling": [runner.sampling.temperature, runner.sampling.top_p, runner.sampling.top_k],
            "precision": str(runner.precision),
            "seed": runner.seed,
            **more,
        }

    # Rows

    def rows(self, plans: Iterable[Plan]) -> list[Row]:
        """Of everything that has been measured so far."""
        return [row for plan in plans for row in self._rows(plan)]

    def _rows(self, plan: Plan) -> Iterator[Row]:
        title = plan.method.title
        timed = [streams for own, streams in self._speeds if own == title]
        for streams in timed:
            yield self._row(plan, streams, self._speeds[title, streams])
        if not timed and title in self._speeches:
            yield self._row(plan, self._scale.streams[0], None)

    def _row(self, plan: Plan, streams: int, timed: Speed | None) -> Row:
        method, spoken = plan.method, self._speeches.get(plan.method.title)
        own, heard = self.settled(method, streams), self.settled(method, self._scale.streams[0])
        ups = timed.speedups if timed else []
        return Row(
            title=method.title,
            part=plan.part,
            talker=method.talker,
            drafter=method.drafter,
            draft=method.draft,
            verifier=method.verifier,
            options=own.options,
            mean_size=self._mean_size(method),
            preserves=method.preserves,
            streams=streams,
            speedup=median(ups) if timed else None,
            speedup_low=min(ups) if timed else None,
            speedup_high=max(ups) if timed else None,
            wall_speedup=median(timed.wall_speedups) if timed else None,
            frames_per_s=timed.frames_per_s if timed else None,
            committed_per_step=timed.committed_per_step if timed else None,
            rho=timed.rho if timed else None,
            rho_target=timed.rho - timed.rho_draft if timed else None,
            rho_draft=timed.rho_draft if timed else None,
            expected=timed.expected if timed else None,
            note=timed.note if timed else "",
            quality_options=None if own.options == heard.options or not spoken else heard.options,
            quality=self._quality(spoken, with_samples=streams == self._scale.streams[0]) if spoken else None,
            speed=timed,
            hashes=self._runner.found.hashes(method),
        )

    def _quality(self, spoken: Speech, *, with_samples: bool) -> Quality:
        found = Quality.of(spoken, self._speeches[PLAIN.title])
        return found if with_samples else replace(found, spoken=())

    def _mean_size(self, method: Method) -> float | None:
        similarity = method.options.get("similarity", method.swapped_within)
        known = self._runner.found.similarities()
        return next((one.mean_size for one in known if one.threshold == similarity), None)

    def parted(self, plans: Iterable[Plan]) -> list[str]:
        """What should say plain decoding's tokens and does not."""
        found = []
        for plan in plans:
            own = self._speeches.get(plan.method.title)
            if own is None or not plan.method.keeps_tokens:
                continue
            heard = Quality.of(own, self._speeches[PLAIN.title])
            if heard.same_tokens < heard.sentences:
                found.append(f"{plan.method.title}: {heard.sentences - heard.same_tokens} sentences part")
        return found


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
