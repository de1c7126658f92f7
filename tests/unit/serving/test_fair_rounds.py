from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from talkahead.serving.fair_rounds import FairRounds


class Always:
    """A gate that is open."""

    def when_open(self, go: Callable[[], None]) -> None:
        go()


class Shut:
    """A gate that a test opens."""

    def __init__(self) -> None:
        self.has_come = threading.Event()

    def when_open(self, go: Callable[[], None]) -> None:
        self.open = go
        self.has_come.set()


def test_jobs_take_turns_and_newcomers_go_first() -> None:
    order: list[str] = []
    may_begin, done = threading.Event(), threading.Semaphore(0)

    def job(name: str, steps: int) -> Iterator[Always]:
        for step in range(steps):
            may_begin.wait(5)
            order.append(f"{name}{step}")
            yield Always()
        done.release()

    rounds = FairRounds("test")
    rounds.add(job("a", 4))
    rounds.add(job("b", 2))
    may_begin.set()
    for _ in range(2):
        assert done.acquire(timeout=5)
    rounds.close()
    assert order == ["a0", "b0", "a1", "b1", "a2", "a3"]


def test_a_job_before_a_shut_gate_holds_nobody_up() -> None:
    gate, done = Shut(), threading.Semaphore(0)
    order: list[str] = []

    def patient() -> Iterator[Shut]:
        order.append("begun")
        yield gate
        order.append("gone on")
        done.release()

    def quick() -> Iterator[Always]:
        order.append("quick")
        yield Always()
        done.release()

    rounds = FairRounds("test")
    rounds.add(patient())
    assert gate.has_come.wait(5)
    rounds.add(quick())
    assert done.acquire(timeout=5)
    gate.open()
    assert done.acquire(timeout=5)
    rounds.close()
    assert order == ["begun", "quick", "gone on"]
