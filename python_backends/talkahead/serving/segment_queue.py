"""Segments that wait for the encoder: what opens a stream goes before what continues one."""

from __future__ import annotations

import heapq
import threading
from itertools import count
from typing import Generic, TypeVar

Item = TypeVar("Item")


class SegmentQueue(Generic[Item]):
    """Hands out items by segment index, then by arrival: a newcomer waits for one segment of a long text."""

    def __init__(self) -> None:
        self._arrivals = count()
        self._waiting: list[tuple[int, int, Item]] = []
        self._is_closed = False
        self._changed = threading.Condition()

    def put(self, segment: int, item: Item) -> None:
        with self._changed:
            heapq.heappush(self._waiting, (segment, next(self._arrivals), item))
            self._changed.notify()

    def take(self) -> Item | None:
        """Waits for the next item; None once the queue is closed and used up."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_closed)
            return heapq.heappop(self._waiting)[2] if self._waiting else None

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify()
