"""The choice of who decodes, step by step on a clock of its own, with steps that cost what a table says.

Streams have slots when they arrive. A frame is 25 ms of speech, a step draws one for each of its rows, and a
listener begins when the first window is made.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from talkahead.engine.schedule import Contender, choose

FRAME_S = 0.025
FIRST, LATER = 11, 20
"""Frames that a first window waits for, and each later one."""
MAX_ROWS, MAX_BEGINNING, MAX_LEAD_S, LIMIT_S = 16, 6, 1.0, 0.1
Cost = Callable[[int], float]


def quick(rows: int) -> float:
    """A server's CPU: seconds of a step."""
    return 0.0005 + 0.00015 * rows


def slow(rows: int) -> float:
    """One that speaks 16 streams 1.7 times as fast as they are heard."""
    return 0.003 + 0.00075 * rows


@dataclass
class Speaking:
    """
    Attributes:
        first_s: when its first window was made.
        dry_s: how long its listener has waited in all.
    """

    at_s: float
    frames: int
    drawn: int = 0
    sent: int = 0
    first_s: float = math.inf
    ends_s: float = math.inf
    deadline: float = math.inf
    dry_s: float = 0.0

    @property
    def wanted(self) -> int:
        """Frames in all, once the next window is made."""
        window = FIRST if not self.sent else LATER
        return min(self.sent + window, self.frames)

    def contends(self, slot: int) -> Contender:
        if not self.sent:
            return Contender(slot, self.at_s + LIMIT_S, is_newcomer=True, is_beginning=True)
        lacks_s = (self.wanted - self.drawn) * FRAME_S
        return Contender(slot, self.deadline, is_newcomer=False, lacks_s=lacks_s)

    def draw(self, now: float) -> None:
        self.drawn += 1
        if self.drawn < self.wanted:
            return
        if not self.sent:
            self.first_s = self.deadline = now
        self.dry_s += max(now - self.deadline, 0.0)
        self.deadline = max(self.deadline, now) + (self.drawn - self.sent) * FRAME_S
        self.sent = self.drawn
        if self.drawn == self.frames:
            self.ends_s = now


@dataclass
class Machine:
    cost: Cost
    streams: list[Speaking]
    now: float = 0.0
    steps: list[tuple[float, int]] = field(default_factory=list)
    """When each of them began, and its rows."""

    def run(self) -> None:
        """Until all have been spoken."""
        while open_streams := [one for one in self.streams if one.ends_s == math.inf]:
            here = [one for one in open_streams if one.at_s <= self.now]
            if not here:
                self.now = min(one.at_s for one in open_streams)
                continue
            choice = choose(
                [one.contends(slot) for slot, one in enumerate(here)],
                self.now,
                max_rows=MAX_ROWS,
                max_beginning=MAX_BEGINNING,
                max_lead_s=MAX_LEAD_S,
                pace=FRAME_S / self.cost(min(len(here), MAX_ROWS)),
                may_park=len(here) <= MAX_ROWS,
            )
            assert choice.slots, "somebody is open, and nobody runs"
            self.steps.append((self.now, len(choice.slots)))
            self.now += self.cost(len(choice.slots))
            for slot in choice.slots:
                here[slot].draw(self.now)


def spoken(cost: Cost, arrivals: Sequence[tuple[float, int]]) -> Machine:
    machine = Machine(cost, [Speaking(at_s, frames) for at_s, frames in sorted(arrivals)])
    machine.run()
    return machine


crowds = st.lists(st.tuples(st.floats(0.0, 4.0), st.integers(FIRST, 240)), min_size=1, max_size=MAX_ROWS)


@pytest.mark.parametrize("cost", [quick, slow])
@example(arrivals=[(0.0, frames) for frames in (25, 31, 31, 31, 37, 37, 37)] + [(0.1875, 26), (0.15625, 30)])
@given(arrivals=crowds)
@settings(max_examples=200, deadline=None)
def test_nobody_runs_dry_where_all_can_be_spoken_in_time(
    cost: Cost, arrivals: list[tuple[float, int]]
) -> None:
    """Whenever they come: a step of all takes less than the frame that it makes for each."""
    assert all(one.dry_s == 0.0 for one in spoken(cost, arrivals).streams)


@pytest.mark.parametrize("cost", [quick, slow])
@given(arrivals=crowds)
@settings(max_examples=200, deadline=None)
def test_a_newcomer_waits_for_the_step_in_flight_and_then_for_its_own(
    cost: Cost, arrivals: list[tuple[float, int]]
) -> None:
    """Du et al. 2021, section 2.2.3: at most the iteration that it finds, and those that its chunk takes; of
    those who come while no more begin than a short step takes. Short steps are longer where others would run
    dry meanwhile, which a quick machine never sees."""
    machine = spoken(cost, arrivals)
    for one in machine.streams:
        begin = [other for other in machine.streams if other.at_s <= one.first_s and other.first_s > one.at_s]
        if len(begin) <= MAX_BEGINNING:
            longest = max(rows for at_s, rows in machine.steps if one.at_s <= at_s < one.first_s)
            rows = MAX_BEGINNING if cost is quick else max(MAX_BEGINNING, longest)
            bound = cost(MAX_ROWS) + FIRST * cost(rows)
            assert one.first_s - one.at_s <= bound + 1e-9


@given(arrivals=st.lists(st.tuples(st.floats(0.0, 1.0), st.integers(FIRST, 80)), min_size=1, max_size=64))
@settings(max_examples=50, deadline=None)
def test_all_are_spoken_by_a_machine_that_does_not_keep_up(arrivals: list[tuple[float, int]]) -> None:
    """Nobody starves: it ends when all frames are drawn, at worst in steps of one row."""

    def costly(rows: int) -> float:
        return 0.02 + 0.002 * rows

    machine = spoken(costly, arrivals)
    frames = sum(one.frames for one in machine.streams)
    assert max(one.ends_s for one in machine.streams) <= 1.0 + frames * costly(1)
