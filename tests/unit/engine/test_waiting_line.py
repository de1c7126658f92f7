from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from talkahead.engine.running_mean import ENOUGH
from talkahead.engine.waiting_line import WaitingLine
from talkahead.errors import Code
from talkahead.transport.messages import LongWait, Waits
from talker_fakes import CONFIG, Rig, script

ROWS = 4
LIMITED = replace(CONFIG, max_wait_s=2.0)
CAN_WAIT, USUAL, URGENT = 1, 2, 3


def line(
    slot_s: float = 1.0,
    work_s: float = 0.1,
    *,
    among: int = ROWS,
    times: int = ENOUGH,
    max_wait_s: float = 2.0,
) -> WaitingLine:
    measured = WaitingLine(ROWS, replace(CONFIG, max_wait_s=max_wait_s))
    for _ in range(times):
        measured.left(0.0, slot_s, among=among, is_awaited=False)
        measured.heard(work_s)
    return measured


def test_a_slot_becomes_free_as_often_as_streams_end() -> None:
    measured = line(slot_s=1.0, work_s=0.1)
    assert measured.first_chunk_s(0, num_free=1) == pytest.approx(0.1)
    assert measured.first_chunk_s(0, num_free=0) == pytest.approx(0.25 + 0.1)
    assert measured.first_chunk_s(7, num_free=0) == pytest.approx(2.0 + 0.1)


def test_while_somebody_waits_the_ends_themselves_are_counted() -> None:
    """Of a pool that has just filled up, what slots were held for tells too little."""
    measured = line(slot_s=1.0, work_s=0.1)
    for end in range(60):
        measured.left(0.5 * end, 1.0, among=ROWS, is_awaited=True)
    assert measured.first_chunk_s(0, 0) == pytest.approx(0.5 + 0.1, rel=0.05)
    for end, is_awaited in ((60.0, False), (120.0, True)):
        measured.left(end, 1.0, among=ROWS, is_awaited=is_awaited)
    assert measured.first_chunk_s(0, 0) < 0.5 + 0.1, "pauses in which nobody waits are none of it"


@pytest.mark.parametrize(("among", "interval_s"), [(1, 0.25), (ROWS, 0.25), (5 * ROWS, 0.05)])
def test_the_more_have_slots_the_more_often_one_leaves(among: int, interval_s: float) -> None:
    """Where they are more than a step takes; fewer would not leave a fuller pool any sooner."""
    assert line(slot_s=1.0, work_s=0.1, among=among).first_chunk_s(0, 0) == pytest.approx(interval_s + 0.1)


def test_a_wait_that_is_too_long_is_told_with_what_is_allowed() -> None:
    ahead = [line().turn_at(0.0, USUAL)] * 8
    wait = line().outlook(ahead, num_free=0, now=0.5, urgency=USUAL).long_wait
    assert wait == LongWait(pytest.approx(9 / 4 + 0.1), 2.0)
    assert wait is not None and wait.error.code is Code.RESOURCE_EXHAUSTED
    assert "after 2350 ms, and 2000 ms are the most" in str(wait.error)
    assert "try again in about 350 ms" in str(wait.error)


def test_who_fits_in_time_is_let_in() -> None:
    assert line().outlook([0.0] * 7, 0, 9.0, USUAL).long_wait == LongWait(pytest.approx(2.1), 2.0)
    assert line().outlook([0.0] * 6, 0, 9.0, USUAL).long_wait is None


def test_the_least_urgent_wait_for_as_long_as_it_takes() -> None:
    assert line().outlook([0.0] * 60, 0, 9.0, CAN_WAIT).long_wait is None


def test_the_urgent_overtake_and_are_less_patient() -> None:
    usual = [line().turn_at(8.5, USUAL)] * 60
    assert line().outlook(usual, 0, 9.0, URGENT).long_wait is None, "it goes before all of them"
    assert line().outlook([0.0] * 4, 0, 9.0, URGENT).long_wait == LongWait(pytest.approx(5 / 4 + 0.1), 1.0)
    assert line().outlook([0.0] * 4, 0, 9.0, USUAL).long_wait is None


@pytest.mark.parametrize(
    ("measured", "num_free"),
    [
        (line(slot_s=100.0, times=ENOUGH - 1), 0),
        (line(slot_s=100.0), 5),
        (line(slot_s=100.0, max_wait_s=0.0), 0),
    ],
    ids=["not measured yet", "room for all", "switched off"],
)
def test_nobody_is_refused_for_a_guess(measured: WaitingLine, num_free: int) -> None:
    assert [one.long_wait for one in measured.outlooks([0.0] * 4, num_free, 9.0)] == [None] * 3


def limit_s(measured: WaitingLine, urgency: int = USUAL) -> float:
    return measured.outlook([], 0, 9.0, urgency).limit_s


def test_a_line_that_outlasts_a_crowd_is_kept_short_until_it_has_been_away_for_as_long() -> None:
    measured = line()
    for now, has_waiters, limit in (
        (10.0, True, 2.0),
        (11.9, True, 2.0),
        (12.0, True, 0.5),
        (20.0, True, 0.5),
        (20.1, False, 0.5),
        (21.0, True, 0.5),
        (21.1, False, 0.5),
        (23.0, False, 0.5),
        (23.1, False, 2.0),
        (30.0, True, 2.0),
        (31.0, False, 2.0),
        (31.5, True, 2.0),
        (33.0, True, 2.0),
    ):
        measured.look(now, has_waiters=has_waiters)
        assert limit_s(measured) == limit, now
        assert limit_s(measured, CAN_WAIT) == math.inf and limit_s(measured, URGENT) == limit / 2


def test_it_says_when_it_wants_to_be_looked_at() -> None:
    measured = line()
    assert measured.review_at == math.inf
    measured.look(10.0, has_waiters=True)
    assert measured.review_at == 12.0
    measured.look(12.0, has_waiters=True)
    assert measured.review_at == math.inf
    measured.look(13.0, has_waiters=False)
    assert measured.review_at == 15.0


def test_where_nobody_is_refused_no_line_stands() -> None:
    measured = line(max_wait_s=0.0)
    for now in (10.0, 1e6):
        measured.look(now, has_waiters=True)
        assert limit_s(measured) == measured.review_at == math.inf


@given(st.integers(0, 40), st.integers(0, ROWS), st.floats(0.01, 10.0))
def test_the_longer_the_line_the_fewer_are_let_in(ahead: int, free: int, slot_s: float) -> None:
    measured = line(slot_s)
    outlooks = [measured.outlook([0.0] * num, free, 9.0, USUAL) for num in (ahead, ahead + 1)]
    assert outlooks[1] == outlooks[0].behind(1)
    refused = [one.long_wait is not None for one in outlooks]
    assert refused == sorted(refused)


# In the loop


def full(config: object = LIMITED) -> tuple[Rig, list[Waits]]:
    """One slot, which streams have had for a second each; what newcomers were told."""
    rig = Rig(num_slots=1, config=config)  # type: ignore[arg-type]
    for stream in range(100, 100 + ENOUGH):
        rig.submit(stream, 20)
        rig.run()
        rig.advance(1.0)
        rig.finish()
    return rig, rig.waits


def refused(waits: Waits) -> list[bool]:
    """By urgency."""
    return [one.long_wait is not None for one in waits.outlooks]


def test_newcomers_are_refused_before_any_work_is_paid_for() -> None:
    rig, told = full()
    assert refused(told[-1]) == [False] * 3 and told[-1].num_arrived == ENOUGH
    spoken = [rig.submit(stream, 20) for stream in range(1, 3)]
    rig.run(1)
    assert refused(told[-1]) == [False, True, True] and told[-1].num_arrived == ENOUGH + 2
    error = rig.submit(3, 20).error
    assert error.code is Code.RESOURCE_EXHAUSTED and "2000 ms are the most" in str(error)
    waiting = rig.submit(4, 20, urgency=CAN_WAIT)
    rig.finish()
    assert [len(outlet.tokens) for outlet in (*spoken, waiting)] == [20] * 3
    assert refused(told[-1]) == [False] * 3 and told[-1].num_arrived == ENOUGH + 4
    rig.assert_empty()


@pytest.mark.parametrize(("urgency", "limit_s"), [(USUAL, 0.5), (CAN_WAIT, 2.0)], ids=["usual", "can wait"])
def test_who_comes_to_a_line_that_stands_is_told_so_but_who_can_wait_makes_none(
    urgency: int, limit_s: float
) -> None:
    rig, told = full()
    spoken = [rig.submit(1, 20), rig.submit(2, 20, urgency=urgency)]
    rig.run(1)
    rig.now += 2.0
    rig.loop.look_at_clock()
    rig.run(1)
    assert told[-1].outlooks[USUAL - CAN_WAIT].limit_s == limit_s
    rig.finish()
    rig.now += 2.0
    assert rig.loop.turn() > 0
    assert told[-1].outlooks[USUAL - CAN_WAIT].limit_s == 2.0, "seen to without anything that happens"
    assert [len(outlet.tokens) for outlet in spoken] == [20] * 2


def test_a_crowd_that_a_step_holds_is_let_in_though_a_third_of_it_begins_at_a_time() -> None:
    rig = Rig(num_slots=9, config=replace(LIMITED, max_step_rows=6, max_wait_s=0.1))
    for stream in range(100, 100 + ENOUGH):
        rig.submit(stream, 20)
        rig.run()
        rig.advance(5.0)
        rig.finish()
    crowd = [rig.submit(stream, 20) for stream in range(1, 8)]
    rig.finish()
    assert [len(outlet.tokens) for outlet in crowd if outlet.end == "closed"] == [20] * 6
    assert crowd[-1].error.code is Code.RESOURCE_EXHAUSTED


def test_the_urgent_get_the_next_slot_and_nobody_starves() -> None:
    """One that can wait is overtaken by who comes within its patience beyond theirs, and by no others."""
    rig = Rig(num_slots=1, config=replace(LIMITED, max_wait_s=1.0))
    first = rig.submit(1, 20)
    rig.run(1)
    waits = rig.submit(2, 20, urgency=CAN_WAIT)
    usual = rig.submit(3, 20)
    urgent = rig.submit(4, 20, urgency=URGENT)
    rig.now += 2.0
    late = rig.submit(5, 20, urgency=URGENT)
    rig.finish()
    began = list(dict.fromkeys(id(outlet) for what, outlet in rig.log if what == "send"))
    assert began == [id(outlet) for outlet in (first, urgent, usual, waits, late)]
    assert late.tokens == script(5, 20)
    rig.assert_empty()
