"""A prompt that takes long to read is read in parts: who plays meanwhile does not wait for all of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from talkahead.engine import talker_loop
from talker_fakes import CONFIG, FRAME_LIMIT, Outlet, Rig, script

ROW_S, STEP_S, PART = 0.01, 0.001, 5
LONG = 23


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    """A row of a prompt takes ten steps' time, and a part may take five rows'."""
    monkeypatch.setattr(talker_loop, "_SMALLEST_PART", 2)
    rig = Rig(config=replace(CONFIG, max_prefill_s=(PART + 0.5) * ROW_S, max_windows_per_stream=99))

    def take(seconds: float) -> None:
        rig.now += seconds

    rig.backbone.on_rows = lambda count: take(count * ROW_S)
    rig.backbone.on_step = lambda: take(STEP_S)
    return rig


def plays(rig: Rig, stream: int = 1, turns: int = 60) -> Outlet:
    """A stream whose listener has begun."""
    outlet = rig.submit(stream, FRAME_LIMIT - 10)
    rig.run(turns)
    rig.answer()
    return outlet


def test_steps_go_on_between_the_parts(rig: Rig) -> None:
    playing = plays(rig)
    steps = len(rig.backbone.steps)
    newcomer = rig.submit(2, 30, rows=LONG)
    longest_s, turns = 0.0, 0
    while not newcomer.windows:
        before = rig.now
        rig.run(1)
        longest_s, turns = max(longest_s, rig.now - before), turns + 1
    assert rig.backbone.parts == [5, 5, 5, 5, 3]
    assert len(rig.backbone.steps) > steps + 4
    assert longest_s <= PART * ROW_S + STEP_S + 1e-9
    rig.finish()
    assert newcomer.tokens == script(2, 30) and playing.tokens == script(1, FRAME_LIMIT - 10)
    rig.assert_empty()


def test_who_would_run_dry_decodes_for_as_long_as_a_part_took(rig: Rig) -> None:
    """Steps take 0.05 s after each part while listeners have less than two parts' time in hand."""
    first = rig.submit(1, FRAME_LIMIT - 10)
    rig.run(12)
    assert rig.answer() and len(first.windows) == 1
    rig.submit(2, 30, rows=LONG)
    rig.run(1)
    steps = len(rig.backbone.steps)
    while len(rig.backbone.parts) < 2:
        rig.run(1)
    assert len(rig.backbone.steps) - steps == pytest.approx(PART * ROW_S / STEP_S, abs=1)


def test_with_nobody_to_wait_for_it_a_prompt_is_read_at_once(rig: Rig) -> None:
    plays(rig, turns=10_000)
    rig.finish()
    rig.submit(2, 30, rows=LONG)
    rig.finish()
    assert rig.backbone.parts == []


def test_short_prompts_are_read_between_the_parts_of_a_long_one(rig: Rig) -> None:
    plays(rig)
    rig.submit(2, 30, rows=LONG)
    rig.run(2)
    short = rig.submit(3, 30)
    assert rig.backbone.parts and sum(rig.backbone.parts) < LONG
    while not short.windows:
        rig.run(1)
    rig.finish()
    assert sum(rig.backbone.parts) == LONG
    assert short.tokens == script(3, 30)


def test_two_long_ones_are_read_one_after_the_other(rig: Rig) -> None:
    plays(rig)
    outlets = [rig.submit(stream, 30, rows=LONG) for stream in (2, 3)]
    rig.finish()
    assert rig.backbone.parts == 2 * [5, 5, 5, 5, 3]
    assert [one.tokens for one in outlets] == [script(2, 30), script(3, 30)]


def test_a_stream_that_ends_while_it_is_read_frees_its_slot(rig: Rig) -> None:
    playing = plays(rig)
    rig.submit(2, 30, rows=LONG, request_id="left")
    rig.run(1)
    assert rig.backbone.parts and rig.loop.cancel(None, "left") == 1
    others = [rig.submit(stream, 30, rows=LONG) for stream in range(3, 9)]
    rig.finish()
    assert [one.tokens for one in others] == [script(stream, 30) for stream in range(3, 9)]
    assert playing.tokens == script(1, FRAME_LIMIT - 10)
    rig.assert_empty()
