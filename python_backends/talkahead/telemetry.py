"""What a model tells Prometheus about itself, through Triton's metrics page.

Triton's own compute times mean nothing for a model that works in the background, hence these. A report is a
call to the server's process, so they leave from a thread of their own: whoever reports returns at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from queue import SimpleQueue
from time import perf_counter
from typing import Any, Protocol

from talkahead.types import StopReason

OPEN_STREAMS = "talkahead_open_streams"
"""Streams whose client has not had the end yet: draining waits until this is 0."""

STAGE_BUCKETS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.04, 0.06, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Upper bounds, finest around the first-chunk aim of 60 ms."""

_GAUGES = {
    "talkahead_active_streams": "Streams that hold a slot of the talker",
    "talkahead_queued_streams": "Streams that wait for a slot",
    OPEN_STREAMS: "Streams whose client has not had the end yet",
}


_LATE = {
    "talkahead_late_streams": "Streams that were spoken more slowly than they are heard",
    "talkahead_late_seconds": "Seconds that listeners of those waited for them to go on",
}


class Metric(Protocol):
    """Triton's metric object."""

    def increment(self, value: float) -> None: ...
    def set(self, value: float) -> None: ...
    def observe(self, value: float) -> None: ...


class Cost(Protocol):
    """What a step costs; `engine.step_costs.StepCost` fits."""

    @property
    def drafter(self) -> str: ...
    @property
    def nodes(self) -> int: ...
    @property
    def rows(self) -> int: ...
    @property
    def seconds(self) -> float: ...


class Metrics(Protocol):
    """The part of `pb_utils` that makes metrics."""

    MetricFamily: Any
    Logger: Any


class Telemetry:
    """The metrics of one model's process. Any method may be called from any thread."""

    def __init__(self, metrics: Metrics, model: str, stages: tuple[str, ...]) -> None:
        # Triton frees a family that nobody holds, and crashes on its metrics then.
        self._families: list[Any] = []
        self._metrics = metrics
        self._log = metrics.Logger
        self._stages = {stage: self._histogram(model, stage) for stage in stages}
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)
        self._thread.start()

    def stage(self, name: str, seconds: float) -> None:
        """One passage of a stage."""
        histogram = self._stages.get(name)
        if histogram is not None:
            self._jobs.put(lambda: histogram.observe(seconds))

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        began = perf_counter()
        yield
        self.stage(name, perf_counter() - began)

    def close(self) -> None:
        self._jobs.put(None)
        self._thread.join()

    def _post(self, job: Callable[[], None]) -> None:
        self._jobs.put(job)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except Exception as error:
                # A number is not worth a stream.
                self._log.log_warn(f"a metric is lost: {type(error).__name__}: {error}")

    def _histogram(self, model: str, stage: str) -> Metric:
        name, about = f"talkahead_{stage}_seconds", f"Seconds of {stage.replace('_', ' ')}, in {model}"
        kind = self._metrics.MetricFamily.HISTOGRAM
        family = self._family(name, about, kind)
        metric: Metric = family.Metric(labels={"model": model}, buckets=list(STAGE_BUCKETS_S))
        return metric

    def _family(self, name: str, about: str, kind: object) -> Any:  # noqa: ANN401
        family = self._metrics.MetricFamily(name=name, description=about, kind=kind)
        self._families.append(family)
        return family


class TalkerTelemetry(Telemetry):
    """The talker's metrics; fits `EngineTelemetry`."""

    def __init__(self, metrics: Metrics) -> None:
        super().__init__(metrics, "talker", ("queue", "prefill", "step", "first_window", "emit"))
        family = metrics.MetricFamily
        self._gauges: list[Metric] = []
        self._pool: list[Metric] = [
            self._family(name, about, family.GAUGE).Metric(labels={}) for name, about in _GAUGES.items()
        ]
        ends = self._family("talkahead_streams_ended", "Streams that ended, by reason", family.COUNTER)
        self._ends: dict[StopReason, Metric] = {
            reason: ends.Metric(labels={"reason": reason.name.lower()})
            for reason in StopReason
            if reason is not StopReason.RUNNING
        }
        self._late: list[Metric] = [
            self._family(name, about, family.COUNTER).Metric(labels={}) for name, about in _LATE.items()
        ]
        self._speculation = _Speculation(lambda name, about: self._family(name, about, family.COUNTER))

    def pool(self, active: int, queued: int, open_streams: int) -> None:
        def report() -> None:
            for gauge, value in zip(self._pool, (active, queued, open_streams), strict=True):
                gauge.set(value)

        self._post(report)

    def spoken(
        self, drafter: str, verifier: str, drafted: int, accepted: int, committed: Sequence[int]
    ) -> None:
        """See `EngineTelemetry`."""
        self._post(lambda: self._speculation.count(drafter, verifier, drafted, accepted, committed))

    def drafting(self, drafter: str, verifier: str, costs: Iterable[Cost]) -> None:
        """Once, before the first stream: the pair of requests that ask for none, and what steps cost here."""
        family = self._metrics.MetricFamily
        default = self._family(
            "talkahead_default_pair", "1 for the pair of requests that ask for none", family.GAUGE
        )
        self._set(default, {"drafter": drafter, "verifier": verifier}, 1)
        cost = self._family("talkahead_step_cost_seconds", "What a step costs on this machine", family.GAUGE)
        for one in costs:
            labels = {"drafter": one.drafter, "nodes": str(one.nodes), "streams": str(one.rows)}
            self._set(cost, labels, one.seconds)

    def _set(self, family: Any, labels: dict[str, str], value: float) -> None:  # noqa: ANN401
        """A gauge that never changes."""
        self._gauges.append(family.Metric(labels=labels))
        self._gauges[-1].set(value)

    def ended(self, reason: StopReason) -> None:
        self._post(lambda: self._ends[reason].increment(1))

    def late(self, stream: str, seconds: float) -> None:
        """See `EngineTelemetry`."""

        def report() -> None:
            for counter, value in zip(self._late, (1, seconds), strict=True):
                counter.increment(value)
            self._log.log_warn(
                f"{stream} was late: its listener waited {seconds:.1f} s in all for it to go on"
            )

        self._post(report)


_COMMITTED_UP_TO = (1, 2, 3, 4, 5, 6, 8)


class _Speculation:
    """What drafting brought, by drafter and verifier.

    The histogram is made of counters, named and labelled as Prometheus names and labels one: Triton's own
    takes one observation a call, and a call to its process for every step of every stream is too much.
    """

    def __init__(self, family: Callable[[str, str], Any]) -> None:
        committed = "tokens that a target step added to a stream"
        self._steps = family("talkahead_target_steps", "Target steps of streams")
        self._drafted = family("talkahead_drafted_tokens", "Tokens drafted")
        self._accepted = family("talkahead_accepted_tokens", "Drafted tokens that were spoken")
        self._buckets = family(
            "talkahead_committed_per_step_bucket", f"Histogram of {committed}: steps up to le"
        )
        self._sum = family("talkahead_committed_per_step_sum", f"Histogram of {committed}: tokens")
        self._count = family("talkahead_committed_per_step_count", f"Histogram of {committed}: steps")
        self._metrics: dict[tuple[int, tuple[str, ...]], Metric] = {}

    def count(
        self, drafter: str, verifier: str, drafted: int, accepted: int, committed: Sequence[int]
    ) -> None:
        labels, steps = {"drafter": drafter, "verifier": verifier}, sum(committed)
        self._add(self._steps, steps, labels)
        self._add(self._drafted, drafted, labels)
        self._add(self._accepted, accepted, labels)
        for edge in _COMMITTED_UP_TO:
            self._add(self._buckets, sum(committed[: edge + 1]), {**labels, "le": str(edge)})
        self._add(self._buckets, steps, {**labels, "le": "+Inf"})
        self._add(self._sum, sum(tokens * times for tokens, times in enumerate(committed)), labels)
        self._add(self._count, steps, labels)

    def _add(self, family: Any, value: int, labels: dict[str, str]) -> None:  # noqa: ANN401
        key = (id(family), tuple(labels.values()))
        if key not in self._metrics:
            self._metrics[key] = family.Metric(labels=labels)
        self._metrics[key].increment(value)


class EncoderTelemetry(Telemetry):
    """The encoder's metrics: its stage, and the voice cache."""

    def __init__(self, metrics: Metrics) -> None:
        super().__init__(metrics, "encoder", ("encoder",))
        family = metrics.MetricFamily
        lookups = self._family(
            "talkahead_voice_cache_lookups", "References of new streams, by whether known", family.COUNTER
        )
        self._lookups: dict[bool, Metric] = {
            is_hit: lookups.Metric(labels={"result": "hit" if is_hit else "miss"}) for is_hit in (True, False)
        }
        size = self._family("talkahead_voice_cache_bytes", "Codes of references that are kept", family.GAUGE)
        self._size: Metric = size.Metric(labels={})

    def voice(self, is_hit: bool) -> None:
        """A stream came with a reference, which was known or not."""
        self._post(lambda: self._lookups[is_hit].increment(1))

    def voices_kept(self, num_bytes: int) -> None:
        self._post(lambda: self._size.set(num_bytes))
