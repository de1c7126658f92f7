"""The learning rate rises, stays, and falls in a straight line."""

from __future__ import annotations

import pytest
from talkahead.draft_training.schedule import Rounds, Schedule


def test_the_three_parts_of_a_run() -> None:
    schedule = Schedule(peak=2.0, steps=100, warm_up=10, decay=0.4)
    assert schedule.rate(0) == pytest.approx(0.2)
    assert [schedule.rate(step) for step in (9, 30, 60)] == pytest.approx([2.0, 2.0, 2.0])
    assert schedule.rate(80) == pytest.approx(1.0)
    assert 0 < schedule.rate(99) < 0.06


def test_without_a_way_down_a_run_can_go_on() -> None:
    short, long = Schedule(1.0, 50, 10, decay=0.0), Schedule(1.0, 500, 10, decay=0.3)
    assert [short.rate(step) for step in range(50)] == [long.rate(step) for step in range(50)]


def test_rounds_follow_one_another() -> None:
    first, second = Schedule(1.0, 10, 2, 0.5), Schedule(0.5, 20, 2, 0.5)
    rounds = Rounds((first, second))
    assert [rounds.rate(step) for step in range(10)] == [first.rate(step) for step in range(10)]
    assert [rounds.rate(10 + step) for step in range(20)] == [second.rate(step) for step in range(20)]
    assert rounds.rate(9) < rounds.rate(11) > rounds.rate(29)
