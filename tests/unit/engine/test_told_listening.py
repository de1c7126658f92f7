"""What listeners experience, and how their streams end, as it is told to those who run the server."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from talkahead.types import Ending
from talker_fakes import CONFIG, SPEECH, Outlet, Rig

STRIDE_S = 0.01


def durations_of(outlet: Outlet) -> list[float]:
    return [window.header.new / SPEECH.frames_per_s for window in outlet.windows]


def one_spoken_one_cancelled() -> Rig:
    rig = Rig()
    rig.submit(1, 20)
    rig.finish()
    rig.submit(2, 60)
    rig.run()
    rig.loop.cancel(2, None)
    rig.finish()
    return rig


def test_the_first_chunk_counts_from_the_request_and_the_next_from_the_one_before() -> None:
    rig = Rig()
    outlet = rig.submit(3, 60, asked_us=round(1e6 * (rig.now - 0.2)))
    for stride_s in (STRIDE_S, STRIDE_S, 2 * STRIDE_S, STRIDE_S):
        rig.run()
        rig.now += stride_s
        rig.loop.acknowledge(rig.done(outlet.windows[len(rig.heard)].header))
    seconds, firsts = zip(*rig.heard, strict=True)
    assert list(seconds) == durations_of(outlet)[:4]
    assert firsts == (pytest.approx(0.2 + STRIDE_S), None, None, None)
    rig.loop.cancel(3, None)
    rig.finish()
    [account] = rig.accounts
    assert account.longest_gap_s == pytest.approx(2 * STRIDE_S)
    assert account.least_slack_s == pytest.approx(seconds[0] - STRIDE_S)


def test_without_the_frontends_time_the_first_chunk_counts_from_the_first_segment() -> None:
    rig = Rig()
    rig.submit(3, 60)
    rig.run()
    rig.now += 0.05
    rig.answer()
    assert rig.heard[0][1] == pytest.approx(0.05)


def test_a_listener_is_at_risk_with_little_audio_left_and_dry_with_none() -> None:
    rig = Rig()
    outlet = rig.submit(3, 60, first_chunk_frames=10)
    rig.run()
    rig.loop.acknowledge(rig.done(outlet.windows[0].header))
    rig.run()
    had_s = durations_of(outlet)[0]
    assert had_s == 0.2 and rig.loop.load.at_risk == 0
    rig.advance(had_s - 0.05)
    assert rig.loop.load.at_risk == 1
    rig.advance(0.1)
    rig.loop.acknowledge(rig.done(outlet.windows[1].header))
    rig.finish()
    assert rig.accounts[0].least_slack_s == 0
    rig.assert_empty()
    assert rig.loop.load.at_risk == 0


def test_a_window_that_failed_is_no_audio() -> None:
    rig = Rig()
    rig.submit(3, 60)
    rig.run()
    rig.answer(ok=False)
    rig.advance(CONFIG.settle_s)
    assert not rig.heard and rig.endings == [Ending.ERROR]


def test_a_cancel_says_whose_it_was() -> None:
    rig = one_spoken_one_cancelled()
    rig.submit(3, 60, deadline_ms=500)
    rig.run()
    rig.now += 0.6
    rig.finish()
    rig.submit(4, 60)
    rig.run()
    rig.advance(CONFIG.idle_timeout_s)
    assert rig.endings[:3] == [Ending.END_OF_SPEECH, Ending.CANCELLED, Ending.DEADLINE]
    assert rig.endings[3] is Ending.ERROR, "nobody makes sound of its windows"
    assert rig.run() == math.inf


def test_an_account_says_when_a_stream_was_first_heard_and_how_long_it_was() -> None:
    rig = one_spoken_one_cancelled()
    whole, left = rig.accounts
    assert (whole.stream, whole.frames, whole.ending) == (1, 20, Ending.END_OF_SPEECH)
    assert whole.first_chunk_s is not None and 0 <= whole.first_chunk_s <= whole.seconds
    assert whole.queue_s == 0
    assert (left.stream, left.ending) == (2, Ending.CANCELLED) and left.frames < 60


def test_a_client_that_left_is_told_from_one_that_asked() -> None:
    rig = Rig(config=replace(CONFIG, vanished_after=4, vanished_grace_s=0.2))
    rig.submit(1, 90)
    rig.run()
    other = rig.submit(2, 90)
    rig.run()
    for _ in range(3):
        rig.answer(other)
        rig.run()
    rig.advance(0.2)
    assert rig.endings == [Ending.END_OF_SPEECH, Ending.VANISHED]


def test_one_for_whom_there_is_no_room_is_refused() -> None:
    rig = Rig(num_slots=1)
    streams = 2 + CONFIG.max_pending
    for stream in range(streams):
        rig.submit(stream, 20)
    assert rig.endings and set(rig.endings) == {Ending.REFUSED}
