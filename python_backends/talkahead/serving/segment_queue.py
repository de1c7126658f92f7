"""Segments that wait for the encoder: what opens a stream goes before what continues one."""

from __future__ import annotations

import heapq
import threading
from itertools import count
from typing import Generic, TypeVar

Item = TypeVar("Item")


class SegmentQueue(Generic[Item]):
    """Hands out batches by segment index, then by arrival, so that a long text keeps no newcomer waiting.

    Args:
        opening: most segments of a batch that opens streams.
        continuing: most segments of a batch that continues them: what a newcomer may have to wait for.
    """

    def __init__(self, opening: int, continuing: int) -> None:
        self._opening, self._continuing = opening, min(opening, continuing)
        self._arrivals = count()
        self._waiting: list[tuple[int, int, Item]] = []
        self._is_closed = False
        self._changed = threading.Condition()

    def put(self, segment: int, item: Item) -> None:
        with self._changed:
            heapq.heappush(self._waiting, (segment, next(self._arrivals), item))
            self._changed.notify()

    def take(self) -> list[Item]:
        """Waits for the next batch; empty once the queue is closed and used up."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_closed)
            openings = sum(segment == 0 for segment, _, _ in self._waiting)
            size = min(openings, self._opening) or min(len(self._waiting), self._continuing)
            return [heapq.heappop(self._waiting)[2] for _ in range(size)]

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify()
