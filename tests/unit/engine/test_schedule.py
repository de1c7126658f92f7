"""Earliest deadline first, parking, and methods that stand together."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from talkahead.engine.decode_step import DecodeStep, Drawn
from talkahead.engine.method import Method
from talkahead.engine.schedule import Choice, Contender, Room, choose, room
from talkahead.engine.slot_table import SlotTable
from talkahead.engine.stream import SegmentState
from talkahead.speculation.match_verifier import MatchVerifier
from talkahead.speculation.null_drafter import NullDrafter
from talker_fakes import CONFIG, Rig, ScriptedBackbone, script

LIMITS = {"max_rows": 8, "max_beginning": 2, "max_lead_s": 1.0, "pace": 1.0, "may_park": True}


def chosen(contenders: list[Contender], **limits: float) -> Choice:
    """At the time 0, of steps of eight rows, two where somebody begins, and as fast as it is heard."""
    return choose(contenders, 0.0, **{**LIMITS, **limits})  # type: ignore[arg-type]


def begins(slot: int, deadline: float = 0.1) -> Contender:
    return Contender(slot, deadline, is_newcomer=True, is_beginning=True)


def plays(slot: int, deadline: float) -> Contender:
    return Contender(slot, deadline, is_newcomer=False)


def test_the_earliest_deadlines_go_first() -> None:
    contenders = [plays(slot, deadline) for slot, deadline in enumerate([5.0, 1.0, 3.0, 2.0])]
    assert chosen(contenders, max_rows=2).slots == (1, 3)


def test_streams_far_ahead_make_room_for_a_first_window() -> None:
    playing = [plays(0, 10.0), plays(1, 0.6)]
    choice = chosen([*playing, begins(2)])
    assert choice.slots == (2, 1)
    assert choice.review_at == 9.0
    alone = chosen(playing)
    assert alone.slots == (1, 0) and alone.review_at == math.inf


def test_while_somebody_begins_a_step_is_short() -> None:
    playing = [plays(slot, 0.2 + 0.1 * slot) for slot in range(5)]
    assert chosen([*playing, begins(5, 0.25)]).slots == (0, 5)
    assert chosen([*playing, begins(5, 0.25), begins(6, 0.22)]).slots == (0, 6)
    assert chosen(playing).slots == (0, 1, 2, 3, 4)


def test_who_would_run_dry_meanwhile_goes_along() -> None:
    """A window of half a second, at twice the pace of its listener: it takes a quarter of a second, and a
    quarter of that is to be left."""
    pressed = Contender(4, 0.31, is_newcomer=False, lacks_s=0.5)
    in_time = replace(pressed, deadline=0.32)
    assert chosen([*map(begins, range(4)), in_time], pace=2.0).slots == (0, 1)
    assert chosen([*map(begins, range(4)), pressed], pace=2.0).slots == (0, 1, 4)


@pytest.mark.parametrize(
    ("pace", "is_preferred"), [(1.0, True), (5.9, True), (6.1, False), (math.inf, False)]
)
def test_who_owes_a_short_window_is_preferred_where_it_would_be_late(pace: float, is_preferred: bool) -> None:
    """Of 0.25 s, while half of that is heard; a pace that promises it in a third of that is trusted."""
    playing = [plays(slot, 0.2 + 0.1 * slot) for slot in range(5)]
    second = Contender(5, 0.125, is_newcomer=False, is_beginning=True, lacks_s=0.25)
    assert len(chosen([*playing, second], pace=pace).slots) == (2 if is_preferred else 6)


def test_who_has_much_in_hand_is_not_preferred() -> None:
    """A client may ask for a first window that lasts."""
    playing = [plays(slot, 0.2 + 0.1 * slot) for slot in range(5)]
    second = Contender(5, 1.1, is_newcomer=False, is_beginning=True, lacks_s=2.0)
    assert len(chosen([*playing, second]).slots) == 6


def test_nobody_is_parked_for_whom_no_lead_is_too_long() -> None:
    contenders = [plays(0, 10.0), plays(1, 0.6), begins(2)]
    choice = chosen(contenders, max_lead_s=math.inf, max_beginning=8)
    assert choice.slots == (2, 1, 0) and choice.review_at == math.inf


def test_nobody_is_parked_where_whole_steps_are_wanted() -> None:
    contenders = [plays(0, 10.0), plays(1, 0.6), plays(3, 0.5), begins(2)]
    choice = chosen(contenders, may_park=False)
    assert choice.slots == (2, 3, 1, 0) and choice.review_at == math.inf


@given(
    st.lists(st.tuples(st.floats(-1, 3), st.sampled_from([(True, True), (False, True), (False, False)]))),
    st.booleans(),
)
def test_somebody_always_runs_and_nobody_before_one_who_is_due_sooner(
    streams: list[tuple[float, tuple[bool, bool]]], may_park: bool
) -> None:
    """But for those whose listeners have nothing left: they take nobody's place."""
    contenders = [Contender(slot, deadline, *state) for slot, (deadline, state) in enumerate(streams)]
    choice = chosen(contenders, may_park=may_park)
    assert bool(choice.slots) == bool(contenders)
    left_out = [one for one in contenders if one.slot not in choice.slots]
    chosen_ones = [contenders[slot] for slot in choice.slots]
    unhurried = [one.deadline for one in chosen_ones if not one.would_run_dry(LIMITS["pace"], 0.0)]
    latest = max(unhurried, default=-math.inf)
    sooner = [one for one in left_out if one.deadline < latest]
    assert all(one.has_in_hand(1.0, 0.0) for one in sooner)


@pytest.mark.parametrize(
    ("num_slots", "most", "num_playing", "rows"), [(9, 2, 1, 1), (9, 2, 2, 2), (4, 0, 1, 1), (3, 0, 1, 2)]
)
def test_who_is_far_ahead_goes_on_where_more_are_open_than_a_step_decodes_or_than_half_a_step(
    num_slots: int, most: int, num_playing: int, rows: int
) -> None:
    """Half a step, where each slot has its row."""
    rig = Rig(num_slots, replace(CONFIG, max_lead_s=0.3, max_step_rows=most))
    playing = [rig.submit(stream, 90, chunk_frames=8) for stream in range(num_playing)]
    while min(len(outlet.windows) for outlet in playing) < 6:
        rig.run()
        rig.answer()
    rig.submit(2, 90, first_chunk_frames=2)
    before = len(rig.backbone.steps)
    rig.run(3)
    assert {len(step.slots) for step in rig.backbone.steps[before:]} == {rows}


def test_a_crowd_that_begins_has_the_steps_for_itself_where_there_are_slots() -> None:
    """Though nobody who plays is far ahead: a third of nine rows while some begin, all of them then."""
    rig = Rig(32, replace(CONFIG, max_step_rows=9))
    playing = [rig.submit(stream, 90, chunk_frames=8) for stream in range(6)]
    while min(len(outlet.windows) for outlet in playing) < 2:
        rig.run(1)
        rig.answer()
    rig.submit(6, 90, first_chunk_frames=2)
    before = len(rig.backbone.steps)
    rig.run(2)
    assert [len(step.slots) for step in rig.backbone.steps[before:]] == [3, 3]
    rig.finish()
    assert [outlet.tokens for outlet in playing] == [script(stream, 90) for stream in range(6)]


@pytest.mark.parametrize(
    ("contenders", "left"),
    [
        ([], Room(4, 2)),
        ([Contender(0, 9.0, False)] * 7, Room(4, 2)),
        ([Contender(0, 0.9, False)] * 3, Room(1, 1)),
        ([Contender(0, 0.9, False)] * 7, Room(0, 0)),
        ([Contender(0, 9.0, True, True)], Room(3, 1)),
        ([Contender(0, 9.0, False, True), Contender(1, 0.1, True, True)], Room(3, 0)),
    ],
    ids=["nobody", "far ahead", "short", "more than rows", "a newcomer", "both begin"],
)
def test_room_is_what_those_leave_who_are_short_or_begin(contenders: list[Contender], left: Room) -> None:
    assert room(contenders, 0.0, max_rows=4, max_beginning=2, max_lead_s=1.0) == left


@pytest.mark.parametrize(("num_slots", "together"), [(9, 2), (6, 6)])
def test_of_a_crowd_a_third_of_a_step_begins_at_a_time_where_there_are_more_slots(
    num_slots: int, together: int
) -> None:
    rig = Rig(num_slots, replace(CONFIG, max_step_rows=6))
    outlets = [rig.submit(stream, 30, first_chunk_frames=2, chunk_frames=8) for stream in range(9)]
    rig.run(1)
    assert rig.loop.load.active == together
    rig.finish()
    assert [outlet.tokens for outlet in outlets] == [script(stream, 30) for stream in range(9)]


def test_who_plays_gets_a_slot_for_the_next_segment_though_a_crowd_begins() -> None:
    rig = Rig(6, replace(CONFIG, max_step_rows=3))
    first = rig.submit(1, 40, last=False, chunk_frames=8)
    rig.run()
    rig.answer()
    rig.run()
    rig.answer()
    begins = rig.submit(2, 30, first_chunk_frames=2)
    rig.run(1)
    second = rig.submit(1, 30, segment=1, chunk_frames=8)
    waits = rig.submit(3, 30)
    rig.run(1)
    assert begins.windows == [] and rig.loop.load.queued == 1 and rig.loop.load.active == 2
    rig.finish()
    assert [one.tokens for one in (first, begins, waits)] == [
        script(one, n) for one, n in ((1, 40), (2, 30), (3, 30))
    ]
    assert second.tokens


def test_a_newcomer_is_never_parked() -> None:
    assert chosen([begins(0, 99.0)]).slots == (0,)


def test_playing_streams_step_aside_until_a_newcomer_has_its_first_window() -> None:
    rig = Rig(config=replace(CONFIG, max_lead_s=0.3))
    playing = [rig.submit(stream, 90, chunk_frames=8) for stream in (1, 2)]
    while min(len(outlet.windows) for outlet in playing) < 6:
        rig.run()
        rig.answer()
    newcomer = rig.submit(3, 90, first_chunk_frames=2)
    before = len(rig.backbone.steps)
    while not newcomer.windows:
        rig.run(1)
    rows = rig.backbone.steps[before:]
    assert {len(step.slots) for step in rows} == {1}
    assert len(rows) == 3  # four frames: two, and two of look-ahead; the first comes with the prefill
    rig.finish()
    assert [outlet.tokens for outlet in (*playing, newcomer)] == [script(stream, 90) for stream in (1, 2, 3)]


def test_a_playing_stream_gets_a_slot_before_newcomers() -> None:
    """Its next segment arrived late, and its slot is gone; a newcomer who came earlier waits on."""
    rig = Rig(num_slots=1)
    first = rig.submit(1, 10, last=False)
    rig.run()
    rig.answer()
    rig.run(1)
    waiting = rig.submit(2, 10)
    rig.run()
    rig.answer()
    assert waiting.windows
    assert first.end == "closed"
    newcomer = rig.submit(3, 30)
    second = rig.submit(1, 10, segment=1)
    rig.finish()
    order = [outlet for what, outlet in rig.log if what == "send"]
    assert order.index(second) < order.index(newcomer)


def test_who_has_seconds_in_hand_keeps_no_newcomer_out() -> None:
    """Beside the one row of a step: its slot is its own, until its listener runs short."""
    rig = Rig(num_slots=3, config=replace(CONFIG, max_lead_s=0.3, max_step_rows=1))
    playing = rig.submit(1, 90, chunk_frames=8)
    rig.run(8)
    waits = rig.submit(2, 90, chunk_frames=8)
    rig.run(1)
    assert rig.loop.load.queued == 1, "nothing was heard of the first one"
    while len(playing.windows) < 6:
        rig.answer()
        rig.run(1)
    rig.answer()
    rig.run(1)
    assert rig.loop.load.queued == 0 and rig.loop.load.active == 2
    rig.finish()
    assert [playing.tokens, waits.tokens] == [script(1, 90), script(2, 90)]
    rig.assert_empty()


def test_a_machine_that_does_not_keep_up_lets_in_no_more_than_a_step_takes() -> None:
    rig = Rig(config=replace(CONFIG, max_lead_s=1.0, max_step_rows=2))
    outlets = [rig.submit(stream, 60) for stream in range(6)]
    active = set()
    while not all(outlet.end for outlet in outlets):
        rig.run(1)
        rig.now += 1.0  # a step takes longer than what it makes is played
        rig.answer()
        active.add(rig.loop.load.active)
    assert max(active) == 2
    assert [outlet.tokens for outlet in outlets] == [script(stream, 60) for stream in range(6)]


@pytest.mark.parametrize("max_lead_s", [0.3, math.inf])
def test_slots_hold_more_than_a_step_only_where_somebody_can_be_ahead(max_lead_s: float) -> None:
    """First in, first out, is what a lead without end makes of it."""
    rig = Rig(config=replace(CONFIG, max_lead_s=max_lead_s, max_step_rows=2, max_windows_per_stream=99))
    for stream in range(6):
        rig.submit(stream, 90, chunk_frames=8)
    most = 0
    while rig.loop.load.active or not most:
        rig.run(1)
        rig.answer()
        most = max(most, rig.loop.load.active)
    assert most == (6 if math.isfinite(max_lead_s) else 2)


def test_a_crowd_is_prefilled_in_parts_with_steps_between() -> None:
    rig = Rig(config=replace(CONFIG, max_prefill_rows=7))
    playing = rig.submit(1, 90)
    rig.run(3)
    crowd = [rig.submit(stream, 30) for stream in range(2, 7)]
    steps = len(rig.backbone.steps)
    rig.run(3)
    assert rig.backbone.prefills == [1, 2, 2, 1]  # prompts of three rows
    assert len(rig.backbone.steps) == steps + 3
    rig.finish()
    assert [outlet.tokens for outlet in crowd] == [script(stream, 30) for stream in range(2, 7)]
    assert playing.tokens == script(1, 90)


def test_a_step_budget_is_kept_and_everyone_is_served() -> None:
    rig = Rig(config=replace(CONFIG, max_step_rows=2))
    outlets = [rig.submit(stream, 30) for stream in range(6)]
    rig.finish()
    assert max(len(step.slots) for step in rig.backbone.steps) == 2
    assert [outlet.tokens for outlet in outlets] == [script(stream, 30) for stream in range(6)]


@pytest.mark.parametrize(("urgency", "limit_s"), [(1, 0.2), (2, 0.1), (3, 0.05)])
def test_urgency_sets_a_newcomers_deadline(urgency: int, limit_s: float) -> None:
    rig = Rig(num_slots=1, config=replace(CONFIG, max_step_rows=1))
    rig.submit(1, 5)
    rig.run(1)
    slow, fast = rig.submit(2, 5, urgency=urgency), None
    rig.now += limit_s - 0.05 - 0.001
    fast = rig.submit(3, 5, urgency=3)  # due 0.05 after its arrival: just before the other
    rig.finish()
    order = [outlet for what, outlet in rig.log if what == "send"]
    assert order.index(fast) < order.index(slow)


def make_table(num_slots: int) -> tuple[SlotTable, ScriptedBackbone]:
    backbone = ScriptedBackbone(num_slots)
    step = DecodeStep(backbone, NullDrafter(), MatchVerifier())
    return SlotTable(step, num_slots, 20, eos=backbone.eos, silence=0), backbone


def make_owner() -> SegmentState:
    return SegmentState(None, None, None)  # type: ignore[arg-type]


def test_several_tokens_a_step_end_at_the_right_frame() -> None:
    """The end of speech inside an accepted draft: what follows it is not spoken."""
    table, backbone = make_table(4)
    owners = [make_owner() for _ in range(4)]
    for owner in owners:
        slot = table.claim(owner)
        table.start(slot, np.array([9]))
        table.wake(slot, 4)
    tokens = np.array([[1, backbone.eos, 3], [1, 2, 3], [1, 2, 3], [backbone.eos, 2, 3]])[..., None]
    due = table.add(Drawn(np.arange(4), tokens, np.array([[3, 3, 1, 3]]), np.array([4, 4, 0, 4])))
    assert due == [owners[0], owners[1], owners[3]]
    assert table.counts.tolist() == [2, 4, 2, 1]
    assert table.ended.tolist() == [True, False, False, True]
    assert table.frames[1, :4, 0].tolist() == [9, 1, 2, 3]
    # What was accepted after the end of speech does not count.
    assert table.totals.tolist() == [[1, 4, 2], [1, 4, 2], [1, 0, 0], [1, 4, 1]]
    assert [row.nonzero()[0].tolist() for row in table.committed] == [[2], [3], [1], [1]]


@given(st.integers(1, 12), st.data())
@settings(max_examples=150, deadline=None)
def test_rows_of_one_method_are_neighbours(num_slots: int, data: st.DataObject) -> None:
    step = DecodeStep(ScriptedBackbone(num_slots), NullDrafter(), MatchVerifier())
    kinds = [Method(NullDrafter(), MatchVerifier()) for _ in range(3)]
    methods = [kinds[data.draw(st.integers(0, 2))] for _ in range(num_slots)]
    for slot, method in enumerate(methods):
        step.assign(slot, method)
    wanted = data.draw(st.lists(st.integers(0, num_slots - 1), min_size=1, unique=True))
    slots = step._lay_out(tuple(wanted)).slots.tolist()
    assert sorted(slots) == sorted(wanted)
    found = [methods[slot] for slot in slots]
    assert sum(one is not other for one, other in pairwise(found)) + 1 == len(set(map(id, found)))
