"""Streams, driven through whatever may happen to them, beside a model that counts on its fingers."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import talkahead.engine
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from talkahead.config import RequestOptions
from talkahead.engine.emitter import Channel
from talkahead.engine.in_flight import InFlight, SentWindow
from talkahead.engine.requests import SegmentRequest, Window
from talkahead.engine.stream import SegmentState, Stream, Totals
from talkahead.engine.streams import Streams
from talkahead.engine.windows import Cut, WindowPlan
from talkahead.errors import TalkaheadError
from talkahead.families.contracts import NO_WORDS
from talkahead.transport.messages import PassBegun, StreamProgress, WindowDone
from talkahead.types import Ending, SegmentHeader, Stats, StopReason, WindowHeader
from talker_fakes import CONFIG, Outlet

Sent = tuple[int, int, int]
"""A window's stream, generation and chunk."""
PROMPT = np.zeros((1, 4), dtype=np.float32)
OPTIONS = [RequestOptions(), RequestOptions(deadline_ms=700)]
STREAMS, SEGMENTS = st.integers(0, 2), st.integers(0, 3)
LONG_S = CONFIG.idle_timeout_s + CONFIG.segment_timeout_s


class AnyStreams(RuleBasedStateMachine):
    """Slots, windows and outlets are the model's own; `streams` is asked whether it agrees."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 100.0
        self.log: list[tuple[str, Outlet]] = []
        self.outlets: dict[int, list[Outlet]] = {}
        """By generation, of the segments that were taken in."""
        self.held: list[SegmentState] = []
        self.sent: list[Sent] = []
        self.awaited: set[Sent] = set()
        self.ends: Counter[int] = Counter()
        self.is_clock = False
        self.progress: dict[int, StreamProgress] = {}
        self.streams = Streams(
            CONFIG,
            release=self.release,
            on_end=self.on_end,
            report_progress=lambda address, progress: self.progress.update({progress.stream: progress}),
            log=lambda line: None,
        )

    def release(self, segment: SegmentState) -> None:
        if segment in self.held:
            self.held.remove(segment)

    def on_end(self, stream: Stream, ending: Ending) -> None:
        outlets = self.outlets[stream.generation]
        self.ends[stream.generation] += 1
        assert all(outlet.end is not None for outlet in outlets), "an outlet was left open"
        failed = [outlet for outlet in outlets if outlet.end != "closed"]
        assert len(failed) <= 1
        if failed:
            assert ending in (Ending.CANCELLED, Ending.DEADLINE, Ending.ERROR)
            assert [one for _, one in self.log if one in outlets][-1] is failed[0], "the error was not last"
        mine = {window for window in self.awaited if window[:2] == (stream.id, stream.generation)}
        assert self.is_clock or not mine, "it ended before its windows were done"
        self.awaited -= mine
        if not stream.arrivals.are_complete:
            assert self.progress[stream.id].is_over

    @rule(stream=STREAMS, segment=SEGMENTS, last=st.booleans(), options=st.sampled_from(OPTIONS))
    def arrive(self, stream: int, segment: int, last: bool, options: RequestOptions) -> None:
        outlet = Outlet(self.log)
        header = SegmentHeader(stream, segment, int(last), segment * 10, segment * 10 + 9, seed=7)
        request = SegmentRequest(header, PROMPT, options, f"id {stream}", outlet)
        channel = Channel(outlet, lambda job: job(), lambda window, failure: None, lambda line: None)
        found = self.streams.arrive(request, channel, self.now)
        if found is None:
            assert outlet.end is not None
            return
        self.outlets.setdefault(found.generation, []).append(outlet)
        if found.failure is not None:
            self.streams.settle(found, self.now)

    @rule(number=st.integers(0, 9))
    def give_slot(self, number: int) -> None:
        ready = [one for stream in self.streams if stream.is_speaking for one in stream.segments]
        waiting = [segment for segment in ready if segment not in self.held]
        if waiting:
            self.held.append(waiting[number % len(waiting)])

    @rule(number=st.integers(0, 9), is_last=st.booleans(), ends=st.booleans())
    def send(self, number: int, is_last: bool, ends: bool) -> None:
        """A window of a segment; with its last one the stream may end, and does with the last segment's."""
        ready = [segment for segment in self.streams.speaking() if segment in self.held]
        if not ready:
            return
        segment = ready[number % len(ready)]
        stream, start = segment.stream, segment.start
        cut, frames = Cut(start, start, start + 5, start + 5, is_last), stream.frames_sent
        is_over = is_last and (ends or segment.is_final)
        if is_over:
            for other in stream.close_others():
                self.release(other)
        window = (stream.id, stream.generation, stream.chunk)
        segment.channel.send(Window(_header(window), PROMPT, Stats(*[0] * 12), NO_WORDS))  # type: ignore[arg-type]
        self.streams.send(segment, cut, SentWindow(len(self.sent), self.now, 0.1))
        self.sent.append(window)
        self.awaited.add(window)
        assert (segment.start, stream.frames_sent, stream.is_newcomer) == (start + 5, frames + 5, False)
        if is_last:
            self.release(segment)
        if is_over:
            stream.drain(StopReason.END_OF_SPEECH)
            self.streams.settle(stream, self.now)
        elif is_last:
            stream.finish_segment(Totals(), np.zeros(0, np.int32), self.now)
            self.streams.report_progress(stream)
            assert segment.request.outlet.end == "closed"  # type: ignore[attr-defined]

    @precondition(lambda self: self.sent)
    @rule(number=st.integers(0, 99), ok=st.sampled_from([True, True, True, False]))
    def acknowledge(self, number: int, ok: bool) -> None:
        """Any window there was: also twice, and of a stream that is over."""
        window = self.sent[-1 - number % len(self.sent)]
        self.awaited.discard(window)
        self.streams.acknowledge(WindowDone(*window, ok), self.now)

    @rule(oldest=st.integers(0, 99), seconds=st.sampled_from([0.0, 0.1, 1.0]))
    def expect(self, oldest: int, seconds: float) -> None:
        self.streams.expect(PassBegun(oldest, seconds), self.now)

    @precondition(lambda self: self.sent)
    @rule(number=st.integers(0, 99))
    def lose(self, number: int) -> None:
        window = self.sent[-1 - number % len(self.sent)]
        self.awaited.discard(window)
        self.streams.lose(_header(window), "no shared memory", self.now)

    @rule(stream=STREAMS, by_request=st.booleans())
    def cancel(self, stream: int, by_request: bool) -> None:
        is_open = any(one.id == stream for one in self.streams)
        chosen = (None, f"id {stream}") if by_request else (stream, None)
        assert self.streams.cancel(*chosen, self.now) == is_open

    @rule(seconds=st.sampled_from([0.01, 0.05, 0.5, 3.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.is_clock = True
        assert self.streams.check(self.now) > self.now
        self.is_clock = False

    @invariant()
    def windows_in_flight_agree(self) -> None:
        assert self.streams.num_in_flight == len(self.awaited)
        for stream in self.streams:
            mine = [window for window in self.awaited if window[:2] == (stream.id, stream.generation)]
            assert len(stream.in_flight) == len(mine)

    @invariant()
    def slots_are_those_of_streams_that_speak(self) -> None:
        speaking = [one for stream in self.streams if stream.is_speaking for one in stream.segments]
        assert all(segment in speaking for segment in self.held)

    @invariant()
    def each_stream_is_open_or_has_ended_once(self) -> None:
        opened = {stream.generation for stream in self.streams}
        assert opened.isdisjoint(self.ends) and opened | set(self.ends) == set(self.outlets)
        assert set(self.ends.values()) <= {1}

    def teardown(self) -> None:
        """Cancelled and left alone, all of them end."""
        for stream in range(3):
            self.cancel(stream, by_request=False)
        for _ in range(2):
            self.wait(LONG_S)
            self.each_stream_is_open_or_has_ended_once()
        assert self.streams.num_open == self.streams.num_in_flight == len(self.held) == 0
        assert set(self.ends) == set(self.outlets)


def _header(window: Sent) -> WindowHeader:
    stream, generation, chunk = window
    names = {field.name for field in fields(WindowHeader)}
    return WindowHeader(
        **{**dict.fromkeys(names, 0), "stream": stream, "generation": generation, "chunk": chunk}
    )


QUICK = settings(max_examples=120, stateful_step_count=40, deadline=None)
AnyStreams.TestCase.settings = QUICK
TestAnyStreams = AnyStreams.TestCase


def _end_with_the_error_first(self: Stream, error: TalkaheadError | None) -> None:
    for number, segment in enumerate(self.segments):
        if number or error is None:
            segment.channel.close()
        else:
            segment.channel.fail(error)
    self._segments.clear()


def _settle_too_early(self: Stream, settle_s: float, now: float) -> bool:
    return not self.is_speaking and self.arrivals.are_complete


MUTANTS: dict[str, tuple[type, str, Callable[..., Any]]] = {
    "slots are kept": (Streams, "_release_slots", lambda self, stream: None),
    "a lost window is still in flight": (InFlight, "remove", lambda self, chunk: None),
    "the error comes first": (Stream, "end", _end_with_the_error_first),
    "nothing is awaited": (Stream, "settle", _settle_too_early),
    "idle streams stay": (InFlight, "idle_at", lambda self, *_: float("inf")),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_model_sees_what_is_wrong(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, name, wrong = MUTANTS[mutant]
    monkeypatch.setattr(kind, name, wrong)
    with pytest.raises((AssertionError, ExceptionGroup)):
        run_state_machine_as_test(
            AnyStreams,
            settings=settings(
                QUICK,
                max_examples=500,
                phases=[Phase.generate],
                database=None,
                derandomize=True,
                suppress_health_check=list(HealthCheck),
            ),
        )


def test_only_streams_write_what_is_theirs() -> None:
    """A slot and its owner name each other: both ends are the table's."""
    header = SegmentHeader(1, 0, 1, 0, 9, seed=7)
    stream = Stream(
        SegmentRequest(header, PROMPT, RequestOptions(), "", Outlet()),
        generation=1,
        plan=WindowPlan(5, 2, 4, 8),
        deadline=0.0,
        now=0.0,
    )
    theirs = {*vars(stream), *(field.name for field in fields(SegmentState))} - {"slot"}
    folder = Path(talkahead.engine.__path__[0])
    written = [
        f"{path.name}: {ast.unparse(node)}"
        for path in sorted(folder.glob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del)
        if node.attr in theirs and ast.unparse(node.value) != "self"
    ]
    assert written == []
