"""The gate between a stream's segments opens as the talker goes on, and never stays shut for nothing."""

from __future__ import annotations

import threading

from talkahead.serving.stream_pace import StreamPace, StreamPaces
from talkahead.transport.messages import StreamProgress


def sent(pace: StreamPace, count: int) -> None:
    for _ in range(count):
        pace.count()


def passed(pace: StreamPace) -> threading.Event:
    event = threading.Event()
    pace.when_open(event.set)
    return event


def test_a_few_segments_may_be_ahead() -> None:
    pace = StreamPace(max_ahead=3, patience_s=60)
    sent(pace, 2)
    assert passed(pace).is_set()
    pace.count()
    waiting = passed(pace)
    assert not waiting.is_set()
    pace.update(StreamProgress(1, 0))
    assert not waiting.is_set()
    pace.update(StreamProgress(1, 1))
    assert waiting.is_set() and not pace.is_over


def test_the_end_opens_the_gate() -> None:
    pace = StreamPace(max_ahead=1, patience_s=60)
    sent(pace, 5)
    waiting = passed(pace)
    pace.update(StreamProgress(1, 0, is_over=True))
    assert waiting.is_set() and pace.is_over and passed(pace).is_set()


def test_who_waits_is_called_once() -> None:
    pace, calls = StreamPace(max_ahead=1, patience_s=60), []
    pace.count()
    pace.when_open(lambda: calls.append("go"))
    for spoken in (1, 2, 3):
        pace.update(StreamProgress(1, spoken))
    assert calls == ["go"]


def test_without_a_talker_the_gate_opens_for_good() -> None:
    pace = StreamPace(max_ahead=1, patience_s=0.01)
    sent(pace, 1)
    assert passed(pace).wait(10)
    sent(pace, 100)
    assert passed(pace).is_set()


def test_a_talker_that_has_been_heard_is_waited_for() -> None:
    pace = StreamPace(max_ahead=1, patience_s=0.01)
    sent(pace, 1)
    pace.update(StreamProgress(1, 0))
    waiting = passed(pace)
    assert not waiting.wait(0.1)


def test_progress_goes_to_its_stream() -> None:
    paces = StreamPaces()
    one, other = paces.open(1), paces.open(2)
    paces.update(StreamProgress(2, 0, is_over=True))
    assert (one.is_over, other.is_over) == (False, True)
    paces.close(1)
    paces.update(StreamProgress(1, 0, is_over=True))
    assert not one.is_over
