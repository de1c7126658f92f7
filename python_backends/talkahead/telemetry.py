"""What a model tells Prometheus about itself, through Triton's metrics page.

Triton's own compute times mean nothing for a model that works in the background, hence these. A report is a
call to the server's process and back, so they leave from a thread of their own: whoever reports returns at
once. Counters and gauges are told as they are at last, one call each for all that came meanwhile; Triton's
histograms take one value a call, so none is of what happens in every step or to every chunk.
"""

from __future__ import annotations

import ctypes
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from queue import SimpleQueue
from time import perf_counter
from typing import Any, Protocol

from talkahead.errors import Code, TalkaheadError
from talkahead.types import Ending, StepWay, StreamAccount

SPEECH_BUCKETS_S = (0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 2.0, 5.0)
"""Upper bounds of what a listener waits: fine where nobody minds, coarse where everybody does."""
STAGE_BUCKETS_S = (0.001, 0.002, 0.005, *SPEECH_BUCKETS_S)

_STAGES = {
    "frontend": "Seconds from a request to its first segment: checks, normalisation, phonemes",
    "encoder": "Seconds that the prompt of a segment took",
    "vocoder": "Seconds that a pass through the codec took, of passes with a stream's first window",
    "queue": "Seconds from a stream's first segment at the talker to its slot",
    "prefill": "Seconds that a prefill took, of all segments let in together",
    "first_window": "Seconds from a stream's first segment at the talker to its first window's leaving",
    "emit": "Seconds until Triton had taken a stream's first window",
}
_LULL_S = 0.1
"""After numbers were told: what comes meanwhile is told together. Every call costs both processes a wait for
the other, some 60 us of a machine that is full."""
_MOST_COMMITTED = 8
"""Tokens of a step that are told apart; more count as so many."""


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


class Load(Protocol):
    """How busy a talker is; `transport.messages.LoadReport` fits, and says what each field means."""

    @property
    def active(self) -> int: ...
    @property
    def queued(self) -> int: ...
    @property
    def open_streams(self) -> int: ...
    @property
    def slots(self) -> int: ...
    @property
    def predicted_first_chunk_ms(self) -> float: ...
    @property
    def windows_in_flight(self) -> int: ...
    @property
    def at_risk(self) -> int: ...


class Metrics(Protocol):
    """The part of `pb_utils` that makes metrics."""

    MetricFamily: Any
    Logger: Any


class _Family:
    """A metric by its labels. Each set of their values is made at first use and kept.

    Triton's family is kept for good, beyond Python's end. One that is let go is freed in the server, which
    crashes where the process that takes this one's place has the same; and one that Python frees at its end
    makes this process crash, for there is no server to tell any more.
    """

    def __init__(self, family: Any, **options: object) -> None:  # noqa: ANN401
        self._family = family
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(family))
        self._options = options
        self._metrics: dict[tuple[str, ...], Metric] = {}

    def of(self, **labels: str) -> Metric:
        key = tuple(labels.values())
        if key not in self._metrics:
            self._metrics[key] = self._family.Metric(labels=labels, **self._options)
        return self._metrics[key]


class _Counter(_Family):
    """A counter. What it is to be raised by is added up, until the page is asked for it.

    Args:
        raises: what counters of the page are to be raised by.
    """

    def __init__(self, family: Any, raises: dict[Metric, float]) -> None:  # noqa: ANN401
        super().__init__(family)
        self._raises = raises

    def add(self, value: float = 1, /, **labels: str) -> None:
        counter = self.of(**labels)
        self._raises[counter] = self._raises.get(counter, 0) + value


class _Page:
    """Makes what is on Triton's metrics page."""

    def __init__(self, metrics: Metrics) -> None:
        self._kinds = metrics.MetricFamily
        self._raises: dict[Metric, float] = {}

    def counter(self, name: str, about: str) -> _Counter:
        return _Counter(self._family(name, about, self._kinds.COUNTER), self._raises)

    def gauge(self, name: str, about: str) -> _Family:
        return _Family(self._family(name, about, self._kinds.GAUGE))

    def histogram(self, name: str, about: str, buckets: Sequence[float]) -> _Family:
        return _Family(self._family(name, about, self._kinds.HISTOGRAM), buckets=list(buckets))

    def _family(self, name: str, about: str, kind: object) -> Any:  # noqa: ANN401
        return self._kinds(name=name, description=about, kind=kind)

    def raises(self) -> list[tuple[Metric, float]]:
        """What counters are to be raised by, since this was asked last."""
        raises = list(self._raises.items())
        self._raises.clear()
        return raises


class Telemetry:
    """The metrics of one model's process. Any method may be called from any thread."""

    def __init__(self, metrics: Metrics, model: str, stages: tuple[str, ...]) -> None:
        self._page = _Page(metrics)
        self._log = metrics.Logger
        self._histograms: dict[str, Metric] = {
            stage: self._page.histogram(f"talkahead_{stage}_seconds", _STAGES[stage], STAGE_BUCKETS_S).of(
                model=model
            )
            for stage in stages
        }
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)
        self._thread.start()

    def stage(self, name: str, seconds: float) -> None:
        """One passage of a stage."""
        histogram = self._histograms.get(name)
        if histogram is not None:
            self._post(lambda: histogram.observe(seconds))

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        began = perf_counter()
        yield
        self.stage(name, perf_counter() - began)

    def close(self) -> None:
        self._is_closing.set()
        self._jobs.put(None)
        self._thread.join()

    def _post(self, job: Callable[[], None]) -> None:
        self._jobs.put(job)

    def _run(self) -> None:
        while self._do(self._jobs.get()):
            if self._jobs.empty():
                self._settle()
                self._is_closing.wait(_LULL_S)
        self._settle()

    def _settle(self) -> None:
        """Nothing more is to be told for now: what is told as it is at last is told, each by itself."""
        for counter, value in self._page.raises():
            self._do(partial(counter.increment, value))

    def _do(self, job: Callable[[], None] | None) -> bool:
        """False when there is nothing more to come."""
        if job is None:
            return False
        try:
            job()
        except Exception as error:
            # A number is not worth a stream.
            self._log.log_warn(f"a metric is lost: {type(error).__name__}: {error}")
        return True


class FrontendTelemetry(Telemetry):
    """The frontend's metrics: its stage, and what it refuses."""

    def __init__(self, metrics: Metrics) -> None:
        super().__init__(metrics, "frontend", ("frontend",))
        self._refused = self._page.counter(
            "talkahead_refused_requests_total", "Requests that never came to the talker, by gRPC code"
        )
        for code in Code:
            self._refused.of(code=code)

    def refused(self, error: Exception) -> None:
        """A request was answered with an error; what is not ours to expect counts as INTERNAL."""
        code = error.code if isinstance(error, TalkaheadError) else Code.INTERNAL
        self._post(lambda: self._refused.add(code=code))


class TalkerTelemetry(Telemetry):
    """The talker's metrics; fits `EngineTelemetry`."""

    def __init__(self, metrics: Metrics) -> None:
        super().__init__(metrics, "talker", ("queue", "prefill", "first_window", "emit"))
        self._listeners = _Listeners(self._page)
        self._pool = _Pool(self._page)
        self._steps = _Steps(self._page)
        self._speculation = _Speculation(self._page)
        self._default_pair = self._page.gauge(
            "talkahead_default_pair", "1 for the pair of requests that ask for none"
        )
        self._ended = self._page.counter("talkahead_streams_ended_total", "Streams that ended, by reason")
        for ending in Ending:
            self._ended.of(reason=ending)

    def drafting(self, drafter: str, verifier: str, costs: Iterable[Cost]) -> None:
        """Once, before the first stream: the pair of requests that ask for none, and what steps cost here."""
        self._default_pair.of(drafter=drafter, verifier=verifier).set(1)
        self._steps.cost(costs)

    def steps_by_way(self) -> Callable[[StepWay], None]:
        """Of a talker whose device records graphs: to be told of each step how it was asked for."""
        ways = self._page.counter(
            "talkahead_forwards_total",
            "Steps of the talker on a GPU: replayed as one graph, their forward alone, or eager",
        )
        for way in StepWay:
            ways.of(way=way)
        return lambda way: self._post(lambda: ways.add(way=way))

    def stepped(self, count: int, seconds: float, streams: int, nodes: int) -> None:
        """See `EngineTelemetry`."""
        self._post(lambda: self._steps.observe(count, seconds, streams, nodes))

    def heard(self, seconds: float, first_chunk_s: float | None) -> None:
        """See `EngineTelemetry`."""
        self._post(lambda: self._listeners.heard(seconds, first_chunk_s))

    def pool(self, load: Load) -> None:
        """See `EngineTelemetry`."""
        self._post(lambda: self._pool.note(load))

    def _settle(self) -> None:
        super()._settle()
        self._do(self._pool.show)

    def spoken(
        self, drafter: str, verifier: str, drafted: int, accepted: int, committed: Sequence[int]
    ) -> None:
        """See `EngineTelemetry`."""
        self._post(lambda: self._speculation.count(drafter, verifier, drafted, accepted, committed))

    def ended(self, account: StreamAccount) -> None:
        """See `EngineTelemetry`."""

        def report() -> None:
            self._ended.add(reason=account.ending)
            self._listeners.ended(account)
            figures = {
                name: round(value, 3) if isinstance(value, float) else value
                for name, value in asdict(account).items()
                if value is not None and name != "request_id"
            }
            self._log.log_info(f"{account.name} ended: {json.dumps(figures)}")

        self._post(report)

    def late(self, stream: str, seconds: float) -> None:
        """See `EngineTelemetry`."""

        def report() -> None:
            self._listeners.late(seconds)
            self._log.log_warn(
                f"{stream} was late: its listener waited {seconds:.1f} s in all for it to go on"
            )

        self._post(report)


class _Listeners:
    """What those experience who listen."""

    def __init__(self, page: _Page) -> None:
        self._first_chunk = page.histogram(
            "talkahead_first_chunk_seconds",
            "Seconds from a request to its first audio, in the server",
            SPEECH_BUCKETS_S,
        )
        self._longest_gap = page.histogram(
            "talkahead_longest_gap_seconds",
            "Seconds from one chunk of audio to the next, the longest of each stream that ended",
            SPEECH_BUCKETS_S,
        )
        self._least_slack = page.histogram(
            "talkahead_least_slack_seconds",
            "Seconds of audio that a listener had left when a chunk came, the least of each ended stream: "
            "0 of one who had run dry",
            (0.0, *SPEECH_BUCKETS_S),
        )
        self._audio = page.counter("talkahead_audio_seconds_total", "Seconds of audio that listeners got")
        self._late_streams = page.counter(
            "talkahead_late_streams_total", "Streams that were spoken more slowly than they are heard"
        )
        self._late_s = page.counter(
            "talkahead_late_seconds_total", "Seconds that listeners of those waited for them to go on"
        )
        waits = (self._first_chunk, self._longest_gap, self._least_slack)
        for family in (*waits, self._audio, self._late_streams, self._late_s):
            family.of()

    def heard(self, seconds: float, first_chunk_s: float | None) -> None:
        self._audio.add(seconds)
        if first_chunk_s is not None:
            self._first_chunk.of().observe(first_chunk_s)

    def ended(self, account: StreamAccount) -> None:
        if account.longest_gap_s is not None:
            self._longest_gap.of().observe(account.longest_gap_s)
        if account.least_slack_s is not None:
            self._least_slack.of().observe(account.least_slack_s)

    def late(self, seconds: float) -> None:
        self._late_streams.add()
        self._late_s.add(seconds)


class _Pool:
    """The gauges. They are told at every change of any; as they are at last, what has changed is sent."""

    def __init__(self, page: _Page) -> None:
        abouts = {
            "talkahead_open_streams": "Streams whose client has not had the end yet",
            "talkahead_active_streams": "Streams that hold a slot of the talker",
            "talkahead_queued_streams": "Streams that wait for a slot",
            "talkahead_at_risk_streams": "Streams whose listener has less than 100 ms of audio left",
            "talkahead_slots": "Streams that fit at once",
            "talkahead_windows_in_flight": "Windows that the codec has not made audio of yet",
            "talkahead_predicted_first_chunk_seconds": "Seconds to the first chunk of one more stream",
        }
        self._gauges = {name: page.gauge(name, about) for name, about in abouts.items()}
        self._shown: dict[str, float] = {}
        self._load: Load | None = None

    def note(self, load: Load) -> None:
        self._load = load

    def show(self) -> None:
        load, self._load = self._load, None
        if load is None:
            return
        values = {
            "talkahead_open_streams": load.open_streams,
            "talkahead_active_streams": load.active,
            "talkahead_queued_streams": load.queued,
            "talkahead_at_risk_streams": load.at_risk,
            "talkahead_slots": load.slots,
            "talkahead_windows_in_flight": load.windows_in_flight,
            "talkahead_predicted_first_chunk_seconds": 1e-3 * load.predicted_first_chunk_ms,
        }
        for name, value in values.items():
            if self._shown.get(name) != value:
                self._gauges[name].of().set(value)
                self._shown[name] = value


class _Steps:
    """What steps take, by how many streams and nodes they have, each rounded up to a power of two."""

    def __init__(self, page: _Page) -> None:
        by = "by streams and nodes of a draft, each up to the label's"
        self._steps = page.counter("talkahead_steps_total", f"Steps of the talker, {by}")
        self._seconds = page.counter("talkahead_step_seconds_total", f"Seconds that they took, {by}")
        self._cost = page.gauge(
            "talkahead_step_cost_seconds", "Seconds that a step takes, as measured at the start"
        )

    def observe(self, count: int, seconds: float, streams: int, nodes: int) -> None:
        labels = {"streams": _up_to(streams), "nodes": _up_to(nodes)}
        self._steps.add(count, **labels)
        self._seconds.add(seconds, **labels)

    def cost(self, costs: Iterable[Cost]) -> None:
        for one in costs:
            labels = {"drafter": one.drafter, "nodes": str(one.nodes), "streams": str(one.rows)}
            self._cost.of(**labels).set(one.seconds)


def _up_to(number: int) -> str:
    """The power of two that it does not exceed."""
    return str(1 << (number - 1).bit_length())


class _Speculation:
    """What drafting brought, by drafter and verifier."""

    def __init__(self, page: _Page) -> None:
        self._steps = page.counter(
            "talkahead_target_steps_total",
            f"Target steps of streams, by the tokens that they added, {_MOST_COMMITTED} and more being one",
        )
        self._committed = page.counter("talkahead_committed_tokens_total", "Tokens that those steps added")
        self._drafted = page.counter("talkahead_drafted_tokens_total", "Tokens that were drafted")
        self._accepted = page.counter("talkahead_accepted_tokens_total", "Drafted tokens that were spoken")

    def count(
        self, drafter: str, verifier: str, drafted: int, accepted: int, committed: Sequence[int]
    ) -> None:
        pair = {"drafter": drafter, "verifier": verifier}
        for tokens, times in enumerate(committed):
            if times:
                self._steps.add(times, **pair, tokens=str(min(tokens, _MOST_COMMITTED)))
        tokens = sum(number * times for number, times in enumerate(committed))
        for family, value in (
            (self._committed, tokens),
            (self._drafted, drafted),
            (self._accepted, accepted),
        ):
            family.add(value, **pair)


class VocoderTelemetry(Telemetry):
    """The vocoder's metrics: its stage, and what all of its passes took."""

    def __init__(self, metrics: Metrics) -> None:
        super().__init__(metrics, "vocoder", ("vocoder",))
        self._passes = self._page.counter(
            "talkahead_codec_passes_total", "Passes of windows through the codec"
        )
        self._windows = self._page.counter("talkahead_windows_total", "Windows that it decoded in them")
        self._seconds = self._page.counter("talkahead_codec_seconds_total", "Seconds that they took")
        for family in (self._passes, self._windows, self._seconds):
            family.of()

    def decoded(self, windows: int, seconds: float, *, is_urgent: bool) -> None:
        """A pass of so many windows took so long; `is_urgent`: a stream's first one was among them."""
        if is_urgent:
            self.stage("vocoder", seconds)
        self._post(lambda: self._count(windows, seconds))

    def _count(self, windows: int, seconds: float) -> None:
        self._passes.add()
        self._windows.add(windows)
        self._seconds.add(seconds)


class EncoderTelemetry(Telemetry):
    """The encoder's metrics: its stage, and the voice cache."""

    def __init__(self, metrics: Metrics) -> None:
        super().__init__(metrics, "encoder", ("encoder",))
        self._lookups = self._page.counter(
            "talkahead_voice_cache_lookups_total", "References of new streams, by whether known"
        )
        self._size = self._page.gauge("talkahead_voice_cache_bytes", "Codes of references that are kept")
        for result in ("hit", "miss"):
            self._lookups.of(result=result)
        self._size.of()

    def voice(self, is_hit: bool) -> None:
        """A stream came with a reference, which was known or not."""
        self._post(lambda: self._lookups.add(result="hit" if is_hit else "miss"))

    def voices_kept(self, num_bytes: int) -> None:
        self._post(lambda: self._size.of().set(num_bytes))
