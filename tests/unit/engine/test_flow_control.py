"""No acknowledgement, no decoding; and every stream ends once, whoever leaves and whatever fails."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from talkahead.errors import Code, TalkaheadError
from talkahead.transport.messages import WindowDone
from talker_fakes import CONFIG, SILENCE, Outlet, Rig, script


def test_without_acknowledgements_decoding_stops() -> None:
    rig = Rig()
    outlet = rig.submit(3, 90)
    wait_s = rig.run()
    assert len(outlet.windows) == CONFIG.max_windows_per_stream
    assert wait_s == CONFIG.idle_timeout_s
    decoded = len(rig.backbone.steps)
    rig.advance(0.1)
    assert len(rig.backbone.steps) == decoded
    assert rig.loop.num_windows_in_flight == CONFIG.max_windows_per_stream
    rig.finish()
    assert outlet.tokens == script(3, 90)
    rig.assert_empty()


def test_windows_of_all_streams_together_are_bounded() -> None:
    rig = Rig(config=replace(CONFIG, max_windows=5))
    outlets = [rig.submit(stream, 50) for stream in range(4)]
    rig.run()
    assert sum(len(outlet.windows) for outlet in outlets) == 5
    while rig.answer():
        rig.run()
        assert rig.loop.num_windows_in_flight <= 5
    assert [outlet.tokens for outlet in outlets] == [script(stream, 50) for stream in range(4)]
    rig.assert_empty()


def test_streams_far_ahead_leave_the_vocoder_free_for_first_windows() -> None:
    config = replace(CONFIG, max_lead_s=0.3, max_windows_ahead=2)
    rig = Rig(config=config)
    playing = [rig.submit(stream, 90, chunk_frames=8) for stream in (1, 2)]
    while min(len(outlet.windows) for outlet in playing) < 6:
        rig.run()
        rig.answer()
    rig.run()
    assert rig.loop.num_windows_in_flight == 2
    newcomer = rig.submit(3, 90)
    wait_s = rig.run()
    assert len(newcomer.windows) == CONFIG.max_windows_per_stream
    assert rig.loop.num_windows_in_flight == 2 + CONFIG.max_windows_per_stream
    sent = sum(len(outlet.windows) for outlet in playing)
    rig.now += wait_s  # nothing is acknowledged, but the play-out goes on: no longer far ahead
    rig.run()
    assert sum(len(outlet.windows) for outlet in playing) > sent
    rig.finish()
    assert [outlet.tokens for outlet in (*playing, newcomer)] == [script(stream, 90) for stream in (1, 2, 3)]


def test_without_an_address_nothing_is_awaited() -> None:
    rig = Rig(address=0)
    outlet = rig.submit(3, 90)
    rig.run()
    assert outlet.tokens == script(3, 90) and outlet.end == "closed"
    rig.assert_empty()


def test_the_end_waits_for_the_last_acknowledgement() -> None:
    rig = Rig()
    outlet = rig.submit(3, 5)
    rig.run()
    assert outlet.windows[-1].header.last and outlet.end is None
    assert rig.loop.num_free_slots == rig.backbone.num_slots
    rig.answer()
    assert outlet.end == "closed"
    rig.assert_empty()


@pytest.mark.parametrize("chunk", [0, -1], ids=["first", "last"])
def test_a_failed_window_ends_the_stream_with_an_error(chunk: int) -> None:
    rig = Rig()
    outlet, neighbour = rig.submit(3, 5), rig.submit(4, 5)
    rig.run()
    rig.answer(neighbour)
    header = outlet.windows[chunk].header
    rig.answered.add((header.stream, header.generation, header.chunk))
    rig.loop.acknowledge(WindowDone(header.stream, header.generation, header.chunk, ok=False))
    rig.run()
    assert outlet.end is None or len(outlet.windows) == 1  # other windows are still on their way
    rig.finish()
    assert outlet.error.code is Code.INTERNAL
    assert neighbour.end == "closed"
    rig.assert_empty()


def test_a_cancelled_stream_ends_with_an_error_as_its_last_response() -> None:
    rig = Rig()
    outlets = [rig.submit(3, 90, segment=index, last=index == 2) for index in range(3)]
    neighbour = rig.submit(4, 90)
    rig.run()
    assert rig.loop.cancel(3, None) == 1
    assert rig.loop.cancel(3, None) == 1  # still ending: the client need not ask again
    assert rig.loop.num_free_slots == rig.backbone.num_slots - 1
    sent = len(outlets[0].windows)
    rig.run()
    assert outlets[0].end is None  # two windows are still with the vocoder
    rig.answer()
    assert outlets[0].end is None  # their audio is still with Triton
    rig.advance(CONFIG.settle_s)
    assert len(outlets[0].windows) == sent
    ended = [outlet for what, outlet in rig.log if what == "end" and outlet in outlets]
    assert [outlet.end for outlet in ended[:2]] == ["closed", "closed"]
    assert ended[2].error.code is Code.CANCELLED
    rig.finish()
    assert neighbour.tokens == script(4, 90)
    rig.assert_empty()


def test_cancel_by_request_id_ends_all_its_streams_and_no_other() -> None:
    rig = Rig()
    mine = [rig.submit(stream, 30, request_id="mine") for stream in (1, 2)]
    others = [rig.submit(3, 30, request_id="yours"), rig.submit(4, 30), rig.submit(5, 30)]
    rig.run(2)
    assert rig.loop.cancel(None, "mine") == 2
    rig.finish()
    assert [outlet.error.code for outlet in mine] == [Code.CANCELLED] * 2
    assert [outlet.end for outlet in others] == ["closed"] * 3
    rig.assert_empty()


def test_a_cancel_that_overtakes_its_stream_still_ends_it() -> None:
    rig = Rig()
    assert rig.loop.cancel(None, "early") == 0
    outlet = rig.submit(1, 30, request_id="early")
    assert outlet.error.code is Code.CANCELLED
    assert rig.submit(2, 30, request_id="early").end is None
    rig.finish()
    rig.loop.cancel(None, "forgotten")
    rig.advance(60)
    assert rig.submit(3, 30, request_id="forgotten").end is None
    rig.finish()
    rig.assert_empty()


END: dict[str, Callable[[Rig], object]] = {
    "spoken": lambda rig: rig.finish(),
    "cancelled": lambda rig: (rig.loop.cancel(None, "mine"), rig.finish()),
    "given up": lambda rig: (rig.run(), rig.advance(CONFIG.idle_timeout_s)),
    "refused": lambda rig: rig.finish(),
}
"""How the first stream of a request id ended."""


@pytest.mark.parametrize("end", END)
def test_a_cancel_that_comes_after_its_stream_spares_the_next_of_the_same_id(end: str) -> None:
    rig = Rig()
    if end == "refused":
        rig.loop.cancel(None, "mine")
    rig.submit(1, 30, request_id="mine")
    END[end](rig)
    rig.assert_empty()
    assert [rig.loop.cancel(None, "mine") for _ in range(2)] == [0, 0]
    rig.advance(60)
    assert rig.loop.cancel(None, "mine") == 0  # however late
    again = rig.submit(2, 30, request_id="mine")
    rig.finish()
    assert again.tokens == script(2, 30)
    rig.assert_empty()


def test_an_id_that_is_used_again_is_cancelled_again() -> None:
    rig = Rig()
    for stream in range(3):
        outlet = rig.submit(stream, 30, request_id="mine")
        rig.run(2)
        assert rig.loop.cancel(None, "mine") == 1
        rig.finish()
        assert outlet.error.code is Code.CANCELLED
    assert rig.loop.cancel(None, "never seen") == 0
    assert rig.submit(9, 30, request_id="never seen").error.code is Code.CANCELLED
    rig.finish()
    rig.assert_empty()


def test_a_cancel_meets_whichever_of_an_id_is_open() -> None:
    """One of two has ended: the cancel is for the other."""
    rig = Rig()
    short, long = rig.submit(1, 5, request_id="mine"), rig.submit(2, 90, request_id="mine")
    rig.run()
    rig.answer(short)
    assert short.end == "closed"
    assert rig.loop.cancel(None, "mine") == 1
    rig.finish()
    assert long.error.code is Code.CANCELLED
    assert rig.loop.cancel(None, "mine") == 0
    assert rig.submit(3, 5, request_id="mine").end is None
    rig.finish()
    rig.assert_empty()


def test_finished_ids_are_forgotten_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("talkahead.engine.early_cancels._REMEMBERED", 2)
    rig = Rig()
    for stream, name in enumerate(("first", "second", "first", "third")):
        rig.submit(stream, 5, request_id=name)
        rig.finish()
    names = ("first", "second", "third")
    for name in names:
        rig.loop.cancel(None, name)
    outlets = [rig.submit(10 + index, 5, request_id=name) for index, name in enumerate(names)]
    rig.finish()
    assert [outlet.end == "closed" for outlet in outlets] == [True, False, True]


def test_a_stream_whose_windows_are_never_acknowledged_is_freed_and_whoever_listens_is_told() -> None:
    rig = Rig()
    outlet = rig.submit(3, 90)
    rig.run()
    rig.advance(CONFIG.idle_timeout_s - 0.01)
    assert outlet.end is None
    rig.advance(0.02)
    assert outlet.error.code is Code.UNAVAILABLE
    assert "chunk 0 for 2 s: is the vocoder held up?" in str(outlet.error)
    rig.assert_empty()


def test_a_busy_vocoder_is_not_a_vanished_client() -> None:
    """While windows before ours are being done, ours may wait longer than the idle limit."""
    rig = Rig()
    before = [rig.submit(stream, 90) for stream in range(1, 5)]
    rig.run()
    outlet = rig.submit(9, 90)
    rig.run()
    for other in before:
        rig.advance(0.7 * CONFIG.idle_timeout_s)
        rig.answer(other)
    assert outlet.end is None
    rig.answer()
    rig.finish()
    assert outlet.tokens == script(9, 90)


def test_a_client_that_later_ones_overtake_has_left() -> None:
    rig = Rig(config=replace(CONFIG, vanished_after=4, vanished_grace_s=0.2))
    gone = rig.submit(1, 90)
    rig.run()
    other = rig.submit(2, 90)
    rig.run()
    for _ in range(3):
        rig.answer(other)
        rig.run()
    assert gone.end is None
    rig.advance(0.2)
    assert gone.end == "closed"
    while rig.answer(other):
        rig.run()
    assert other.tokens == script(2, 90)
    rig.assert_empty()


def test_late_and_repeated_acknowledgements_change_nothing() -> None:
    rig = Rig()
    first = rig.submit(3, 30)
    rig.run()
    header = first.windows[0].header
    rig.advance(CONFIG.idle_timeout_s)
    assert first.error.code is Code.UNAVAILABLE
    again = rig.submit(3, 90)
    rig.run()
    sent = len(again.windows)
    rig.loop.acknowledge(WindowDone(header.stream, header.generation, 0))
    rig.run()
    assert len(again.windows) == sent
    newer = again.windows[0].header
    assert newer.generation != header.generation
    for _ in range(3):
        rig.loop.acknowledge(WindowDone(newer.stream, newer.generation, 0))
        rig.run()
    assert len(again.windows) == sent + 1
    rig.answered.add((newer.stream, newer.generation, newer.chunk))
    rig.finish()
    assert again.tokens == script(3, 90)
    rig.assert_empty()


@pytest.mark.parametrize("address", [0, 1], ids=["alone", "acknowledged"])
@pytest.mark.parametrize(("breaks_at", "segment"), [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1)])
def test_a_window_that_cannot_be_sent_ends_its_stream_with_an_error_as_its_last_response(
    breaks_at: int, segment: int, address: int
) -> None:
    rig = Rig(address=address)
    outlets = [
        rig.submit(3, 60, segment=index, last=index == 1, breaks_at=breaks_at if index == segment else -1)
        for index in range(2)
    ]
    neighbour = rig.submit(4, 60)
    rig.finish()
    assert len(outlets[segment].windows) == breaks_at
    told = [outlet.error for outlet in outlets if outlet.end != "closed"]
    assert [(error.code, "could not be sent: no shared memory" in str(error)) for error in told] == [
        (Code.INTERNAL, True)
    ]
    mine = [outlet for what, outlet in rig.log if outlet in outlets]
    assert mine[-1].end is told[0]
    assert [line for line in rig.logged if "stream 3 (request ''): chunk" in line] == rig.logged != []
    assert neighbour.tokens == script(4, 60)
    rig.assert_empty()


def test_the_last_window_of_a_stream_that_cannot_be_sent_is_missed() -> None:
    rig = Rig()
    whole = rig.submit(3, 20)
    rig.finish()
    broken = rig.submit(4, 20, breaks_at=len(whole.windows) - 1)
    rig.finish()
    assert "could not be sent" in str(broken.error)
    rig.assert_empty()


def test_a_window_that_is_lost_late_changes_nothing() -> None:
    """Its stream is over, or another has its id."""
    rig = Rig()
    first = rig.submit(3, 30)
    rig.run()
    header = first.windows[0].header
    rig.advance(CONFIG.idle_timeout_s)
    rig.loop.lose(header, "late")
    again = rig.submit(3, 30)
    rig.run()
    rig.loop.lose(header, "late")
    rig.finish()
    assert again.tokens == script(3, 30)
    rig.assert_empty()


FAULTS: dict[str, tuple[Callable[[Rig, Outlet], object], bool]] = {
    "denied": (lambda rig, outlet: rig.answer(outlet, ok=False), True),
    "idle": (lambda rig, outlet: rig.advance(CONFIG.idle_timeout_s), True),
    "cancelled": (lambda rig, outlet: rig.loop.cancel(3, None), False),
    "shut down": (lambda rig, outlet: rig.loop.fail_all(TalkaheadError("over", Code.UNAVAILABLE)), False),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_stream_that_failed_by_our_fault_is_in_the_log(fault: str) -> None:
    happen, is_logged = FAULTS[fault]
    rig = Rig()
    outlet = rig.submit(3, 90, request_id="mine")
    rig.run()
    happen(rig, outlet)
    if fault != "shut down":
        rig.finish()
    assert outlet.end is not None
    assert len(rig.logged) == is_logged
    assert all(line.startswith("stream 3 (request 'mine'): ") for line in rig.logged)


def test_segments_that_come_after_the_end_are_closed() -> None:
    rig = Rig()
    rig.submit(3, 60, last=False)
    rig.run()
    rig.advance(CONFIG.idle_timeout_s)
    late = [rig.submit(3, 60, segment=1, last=False), rig.submit(3, 60, segment=2)]
    assert [outlet.end for outlet in late] == ["closed", "closed"]
    rig.assert_empty()
    reused = rig.submit(3, 10)  # all its segments have come: the id is free again
    rig.finish()
    assert reused.tokens == script(3, 10)


def test_fail_all_ends_everything_at_once() -> None:
    rig = Rig(num_slots=2)
    outlets = [
        rig.submit(3, 60, last=False),
        rig.submit(3, 60, segment=1),
        rig.submit(4, 60),
        rig.submit(5, 60),
    ]
    rig.run()
    rig.loop.fail_all(TalkaheadError("gone", Code.UNAVAILABLE))
    ends = [outlet.end for outlet in outlets]
    assert ends.count("closed") == 1  # the other segment of stream 3
    assert [str(end) for end in ends].count("gone") == 3


ACTIONS = st.sampled_from(
    ["submit", "submit", "turn", "turn", "run", "answer", "answer", "deny", "cancel", "wait"]
)


@given(st.lists(st.tuples(ACTIONS, st.integers(0, 2**16)), max_size=60))
@settings(max_examples=150, deadline=None)
def test_whatever_happens_every_stream_ends_once(actions: list[tuple[str, int]]) -> None:
    """Random arrivals, faults, cancels, silence: at the end nothing is left, and who finished got it all."""
    rig = Rig(num_slots=3, config=replace(CONFIG, max_pending=4, max_windows=7, max_step_rows=2))
    spoken: list[tuple[list[int], Outlet]] = []
    for stream, (action, number) in enumerate(actions):
        if action == "submit":
            segments = 1 + number % 3
            for segment in range(segments):
                frames = 1 + (number >> 2) % 45
                breaks_at = (number >> 9) % 4 if number % 11 == 0 else -1
                last, pause = segment == segments - 1, (number >> 4) % 30
                outlet = rig.submit(
                    stream, frames, segment=segment, last=last, pause=pause, breaks_at=breaks_at
                )
                silence = [] if last else [SILENCE] * pause
                spoken.append((script(stream % 64, frames) + silence, outlet))
        elif action == "turn":
            rig.run(1 + number % 7)
        elif action == "run":
            rig.run()
        elif action == "answer" and rig.outlets:
            rig.answer(rig.outlets[number % len(rig.outlets)])
        elif action == "deny" and rig.outlets and number % 4 == 0:
            rig.answer(rig.outlets[number % len(rig.outlets)], ok=False)
        elif action == "cancel":
            rig.loop.cancel(number % 60, None)
        elif action == "wait":
            rig.advance(0.01 * (number % 250))
        assert rig.loop.num_windows_in_flight <= 7
    for _ in range(3):
        rig.finish()
        rig.advance(CONFIG.idle_timeout_s + CONFIG.segment_timeout_s)
    rig.assert_empty()
    for tokens, outlet in spoken:
        assert outlet.end is not None
        assert outlet.tokens == tokens[: len(outlet.tokens)]
        if outlet.windows and outlet.windows[-1].header.last:
            assert outlet.tokens == tokens
    assert rig.run() == math.inf
