"""The twin that does not stream, against a scripted Triton."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from functools import partial

import grpc
import pytest
from fake_triton import FakeStream, FakeTriton, speaks

from perf import twin
from perf.arrivals import Arrival, Length, Spacing
from perf.open_loop import Answers, OpenLoad, answers

LOAD = OpenLoad(rate=100.0, seconds=0.04, spacing=Spacing.EVEN, length=Length.SHORT)


def ask(triton: FakeTriton, num: int, size: int) -> Answers:
    crowd = [Arrival(0.0, 0, seed) for seed in range(num)]
    way = partial(twin.in_batches, size=size)
    return asyncio.run(answers(triton.address, LOAD.length.texts, None, {}, crowd, way))


def test_an_answer_is_the_whole_utterance(triton: FakeTriton) -> None:
    triton.script = speaks(3)
    found = ask(triton, num=1, size=4).utterances[0]
    alone = asyncio.run(answers(triton.address, LOAD.length.texts, None, {}, [Arrival(0.0, 0, 0)]))
    assert len(found.arrivals_ms) == 1 and len(alone.utterances[0].arrivals_ms) == 3
    assert sum(found.durations_ms) == pytest.approx(sum(alone.utterances[0].durations_ms))


def test_a_batch_ends_before_the_next_begins(triton: FakeTriton) -> None:
    """Every second stream takes longer: nobody may begin while a batch ends."""
    lock, held = threading.Lock(), threading.Event()
    there, most, is_ending, begun_early = 0, 0, False, 0

    def counted(stream: FakeStream) -> Iterator[object]:
        nonlocal there, most, is_ending, begun_early
        with lock:
            begun_early += is_ending
            there += 1
            most = max(most, there)
            is_long = there == 2
        held.wait(0.05 if is_long else 0.01)
        yield from speaks(1)(stream)
        with lock:
            there -= 1
            is_ending = there > 0

    triton.script = counted
    found = ask(triton, num=9, size=2)
    assert [one.error for one in found.utterances] == [None] * 9
    assert (most, begun_early) == (2, 0)


def test_answers_come_at_the_end_of_their_batch(triton: FakeTriton) -> None:
    """The first request finds nobody to share one with."""

    def script(stream: FakeStream) -> Iterator[object]:
        if len(triton.streams) == 2:
            threading.Event().wait(0.05)
        yield from speaks(1)(stream)

    triton.script = script
    waits = [one.arrivals_ms[0] for one in ask(triton, num=3, size=2).utterances]
    assert waits[0] < 50.0 <= min(waits[1:])


def test_a_failure_is_its_own_requests_alone(triton: FakeTriton) -> None:
    codes = iter([None, grpc.StatusCode.RESOURCE_EXHAUSTED, None, None])

    def script(stream: FakeStream) -> Iterator[object]:
        if (code := next(codes)) is None:
            return speaks(1)(stream)
        stream.fail(code, "because")
        return iter(())

    triton.script = script
    assert sum(one.is_refused for one in ask(triton, num=4, size=2).utterances) == 1


def test_the_stable_rate_is_that_of_full_batches(triton: FakeTriton) -> None:
    triton.script = speaks(1)
    assert twin.stable_rate(triton.address, LOAD, {}, size=2) > 0
    assert len(triton.streams) == 2 * twin._SATURATED_BATCHES


def test_a_share_of_all_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        twin.main(["--shares", "0.5", "1"])
    assert "--shares: 1; more than 0 and less than 1 is allowed" in capsys.readouterr().err
