from __future__ import annotations

import threading
from collections.abc import Iterator

from talkahead.serving.fair_rounds import FairRounds


def test_jobs_take_turns_and_newcomers_go_first() -> None:
    order: list[str] = []
    may_begin, done = threading.Event(), threading.Semaphore(0)

    def job(name: str, steps: int) -> Iterator[None]:
        for step in range(steps):
            may_begin.wait(5)
            order.append(f"{name}{step}")
            yield
        done.release()

    rounds = FairRounds("test")
    rounds.add(job("a", 4))
    rounds.add(job("b", 2))
    may_begin.set()
    for _ in range(2):
        assert done.acquire(timeout=5)
    rounds.close()
    assert order == ["a0", "b0", "a1", "b1", "a2", "a3"]
