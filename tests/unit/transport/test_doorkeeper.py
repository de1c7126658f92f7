"""Who is on the way to the talker counts for those who come behind, until the talker counts them itself."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from talkahead.transport.messages import LongWait, Outlook, Waits
from talkahead.transport.wait_notice import Doorkeeper, WaitNotice

USUAL, URGENT = 2, 3
FULL = Outlook(num_missing=1, slot_s=0.5, work_s=0.1, limit_s=1.0)


class Door:
    """A talker's notice, a frontend's doorkeeper, and the time."""

    def __init__(self, folder: Path) -> None:
        self.now = 7.0
        self.notice = WaitNotice(folder)
        self.keeper = Doorkeeper(folder, lambda: self.now)

    def tell(self, num_arrived: int, outlook: Outlook = FULL) -> None:
        self.notice.tell(Waits(num_arrived, (Outlook(), outlook, outlook)))

    def ask(self, urgency: int = USUAL) -> LongWait | None:
        wait = self.keeper.long_wait(urgency)
        if wait is None:
            self.keeper.let_in(urgency)
        return wait


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    door = Door(tmp_path)
    yield door
    door.notice.close()


def test_each_on_the_way_makes_the_wait_longer(door: Door) -> None:
    door.tell(40)
    assert door.ask() is None
    assert door.ask() == LongWait(pytest.approx(1.1), 1.0)


def test_who_has_arrived_is_the_talkers_to_count(door: Door) -> None:
    door.tell(40)
    assert door.ask() is None and door.ask() is not None
    door.tell(41)
    assert door.ask() is None
    door.tell(41, FULL.behind(1))
    assert door.ask() is not None


def test_who_ends_on_the_way_is_forgotten(door: Door) -> None:
    door.tell(40)
    assert door.ask() is None
    door.now += 0.4
    assert door.ask() is not None
    door.now += 0.2
    assert door.ask() is None, "nobody is on the way for so long"
    assert door.ask() is not None


def test_the_urgent_go_before_others_who_are_on_the_way(door: Door) -> None:
    door.tell(40)
    assert door.ask() is None
    assert door.ask(URGENT) is None
    assert door.ask(URGENT) is not None


def test_another_talker_counts_from_the_beginning(door: Door, tmp_path: Path) -> None:
    door.tell(40)
    assert door.ask() is None
    door.notice.close()
    assert door.ask() is None, "without a talker nobody is told to wait"
    door.notice = WaitNotice(tmp_path)
    door.tell(0)
    door.now += 0.6
    assert door.ask() is None and door.ask() is not None
    door.tell(1)
    assert door.ask() is None


def test_where_no_talker_counts_nobody_is_remembered_for_longer(tmp_path: Path) -> None:
    """A frontend that is driven alone."""
    moments = itertools.count()
    alone = Doorkeeper(tmp_path, lambda: 0.05 * next(moments))
    for _ in range(100):
        assert alone.long_wait(USUAL) is None
        alone.let_in(USUAL)
    assert len(alone._on_the_way) < 10
