from __future__ import annotations

import math
from dataclasses import replace

import pytest
from talkahead.engine.pace import Pace
from talkahead.errors import Code
from talkahead.transport.messages import WindowDone
from talker_fakes import CONFIG, SPEECH, Outlet, Rig, script

TOKENS_PER_S = 50.0
LATE_S = 0.5
ROWS = 8


def pace(codec: float | None = None, talker: float | None = None, least: float = 0.5) -> Pace:
    """Of stages that make so many seconds of speech a second."""
    measured = Pace(TOKENS_PER_S, least=least, late_after_s=LATE_S, rows=ROWS)
    if codec is not None:
        measured.decoded(0.5, 0.5 * codec)
    if talker is not None:
        measured.stepped(1 / (TOKENS_PER_S * talker), 1, 1)
    return measured


def test_what_was_not_measured_is_no_reason() -> None:
    assert pace().of(100) == math.inf
    assert pace().objection(100, waited_s=60.0) is None


def test_streams_share_the_codec() -> None:
    assert pace(codec=2.0).of(1) == pytest.approx(2.0)
    assert pace(codec=2.0).of(8) == pytest.approx(0.25)


def test_a_step_speaks_for_all_its_rows() -> None:
    assert pace(talker=0.4).of(1) == pace(talker=0.4).of(8) == pytest.approx(0.4)


def test_more_streams_than_rows_take_turns() -> None:
    assert pace(talker=0.4).of(2 * ROWS) == pytest.approx(0.2)


def test_a_step_that_drafts_well_is_worth_more() -> None:
    measured = Pace(TOKENS_PER_S, least=0.5, late_after_s=LATE_S, rows=ROWS)
    measured.stepped(0.04, 4, 1)
    assert measured.of(1) == pytest.approx(2.0)


def test_more_rows_are_paced_as_they_were_seen_or_as_those_beyond_or_else_the_most() -> None:
    measured = Pace(TOKENS_PER_S, least=0.5, late_after_s=LATE_S, rows=ROWS)
    measured.stepped(0.005, 1, 2)
    assert measured.of(1) == measured.of(2) == measured.of(3) == pytest.approx(4.0)
    measured.stepped(0.01, 1, 4)
    assert measured.of(2) == pytest.approx(4.0)
    assert measured.of(3) == measured.of(8) == pytest.approx(2.0)


def test_the_slower_stage_decides() -> None:
    both = pace(codec=2.0, talker=0.7)
    assert both.of(1) == pytest.approx(0.7) and both.of(10) == pytest.approx(0.2)


def test_who_comes_to_late_streams_is_told_the_pace() -> None:
    said = pace(codec=0.1).objection(10, waited_s=LATE_S)
    assert said is not None
    assert "each would get 0.01 seconds of speech a second (min_pace is 0.5)" in said


@pytest.mark.parametrize(
    ("measured", "streams", "waited_s"),
    [
        (pace(codec=0.1), 1, 0.0),
        (pace(codec=0.1), 10, 0.0),
        (pace(codec=0.1), 10, LATE_S - 0.01),
        (pace(codec=5.0), 10, 60.0),
        (pace(codec=0.1, least=0.0), 10, 60.0),
    ],
    ids=["alone", "together", "not late yet", "fast enough", "switched off"],
)
def test_others_are_let_in(measured: Pace, streams: int, waited_s: float) -> None:
    assert measured.objection(streams, waited_s) is None


# In the loop

STRICT = replace(CONFIG, min_pace=0.5)
SLOW_S = 10 / SPEECH.frames_per_s
"""What the codec takes of a frame: ten times as long as that sounds."""


def hear_first(rig: Rig, *outlets: Outlet) -> None:
    """The first window of each is done, after its time."""
    for outlet in outlets:
        header = outlet.windows[0].header
        rig.now += header.new * SLOW_S
        rig.answered.add((header.stream, header.generation, header.chunk))
        done = WindowDone(header.stream, header.generation, header.chunk, seconds=header.new * SLOW_S)
        rig.loop.acknowledge(done)
        rig.run()


def test_streams_that_come_together_are_spoken_however_late() -> None:
    rig = Rig(num_slots=16, config=STRICT)
    outlets = [rig.submit(stream, 30) for stream in range(10)]
    rig.run()
    hear_first(rig, outlets[0])
    outlets.append(rig.submit(10, 30))  # nobody has waited yet
    rig.finish()
    assert [outlet.tokens for outlet in outlets] == [script(stream, 30) for stream in range(11)]


def test_who_comes_to_streams_that_are_late_is_refused_before_it_begins() -> None:
    rig = Rig(config=STRICT)
    first = rig.submit(1, 30)
    rig.run()
    hear_first(rig, first)
    rig.advance(first.windows[0].header.new / SPEECH.frames_per_s + STRICT.late_after_s + 0.01)
    refused = rig.submit(2, 30)
    assert refused.error.code is Code.RESOURCE_EXHAUSTED and refused.windows == []
    assert "each would get 0.05 seconds of speech a second" in str(refused.error)
    rig.finish()
    assert first.tokens == script(1, 30)
    rig.assert_empty()
    alone = rig.submit(3, 30)
    rig.finish()
    assert alone.tokens == script(3, 30)


def test_where_the_codec_keeps_up_a_hiccup_refuses_nobody() -> None:
    rig = Rig(config=STRICT)
    first = rig.submit(1, 90)
    rig.run()
    header = first.windows[0].header
    rig.loop.acknowledge(WindowDone(header.stream, header.generation, header.chunk, seconds=0.01))
    rig.advance(1.5)
    second = rig.submit(2, 30)
    rig.finish()
    assert first.tokens == script(1, 90) and second.tokens == script(2, 30)


def test_a_stream_that_was_late_is_told_of() -> None:
    rig = Rig()
    late, quick = rig.submit(1, 30, request_id="mine"), rig.submit(2, 4)
    rig.run()
    rig.answer(quick)
    heard_s = len(late.windows[0].frames) / SPEECH.frames_per_s
    hear_first(rig, late)
    rig.advance(1.5)
    rig.finish()
    [(stream, waited_s)] = rig.late
    assert stream == "stream 1 (request 'mine')" and 1.5 - heard_s <= waited_s < 1.5
