"""The learning rate rises, stays, and falls in a straight line."""

from __future__ import annotations

import pytest
from talkahead.draft_training.schedule import Schedule


def test_the_three_parts_of_a_run() -> None:
    schedule = Schedule(peak=2.0, steps=100, warm_up=10, decay=0.4)
    assert schedule.rate(0) == pytest.approx(0.2)
    assert [schedule.rate(step) for step in (9, 30, 60)] == pytest.approx([2.0, 2.0, 2.0])
    assert schedule.rate(80) == pytest.approx(1.0)
    assert 0 < schedule.rate(99) < 0.06


def test_without_a_way_down_a_run_can_go_on() -> None:
    short, long = Schedule(1.0, 50, 10, decay=0.0), Schedule(1.0, 500, 10, decay=0.3)
    assert [short.rate(step) for step in range(50)] == [long.rate(step) for step in range(50)]
