"""Many long jobs on one thread, a step at a time, so that a long text does not hold up a short one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from queue import PriorityQueue
from typing import Protocol


class Gate(Protocol):
    """What a job waits for between two steps."""

    def when_open(self, go: Callable[[], None]) -> None:
        """Calls `go` once, now or later, from any thread."""


class FairRounds:
    """Runs iterators on a thread of its own: always a step of the least advanced, the oldest among equals.

    After each step an iterator yields the gate before its next one. It handles its own errors: whoever waits
    for its result must be told by it.
    """

    def __init__(self, name: str) -> None:
        self._arrivals = count()
        self._jobs: PriorityQueue[tuple[int, int, Iterator[Gate] | None]] = PriorityQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def add(self, job: Iterator[Gate]) -> None:
        self._jobs.put((0, next(self._arrivals), job))

    def close(self) -> None:
        """Stops after the step that runs now."""
        self._jobs.put((-1, -1, None))
        self._thread.join()

    def _run(self) -> None:
        while True:
            steps, arrival, job = self._jobs.get()
            if job is None:
                return
            for gate in job:
                gate.when_open(partial(self._jobs.put, (steps + 1, arrival, job)))
                break
