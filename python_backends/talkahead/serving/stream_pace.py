"""How far the frontend may be ahead of the talker with a stream's segments."""

from __future__ import annotations

import threading
from collections.abc import Callable

from talkahead.transport.messages import StreamProgress

_MAX_AHEAD = 8
"""Segments sent and not yet spoken: so many of a stream that is left are encoded for nothing."""
_PATIENCE_S = 2.0


class StreamPace:
    """A gate between a stream's segments, which opens as the talker goes on. Thread-safe.

    A frontend that is driven alone has no talker to wait for: one that says nothing for `patience_s` is not
    there, and the gate stays open.
    """

    def __init__(self, max_ahead: int = _MAX_AHEAD, patience_s: float = _PATIENCE_S) -> None:
        self._limit: float = max_ahead
        self._max_ahead = max_ahead
        self._patience_s = patience_s
        self._sent = 0
        self._waiting: Callable[[], None] | None = None
        self._alarm: threading.Timer | None = None
        self._has_talker = False
        self._lock = threading.Lock()
        self.is_over = False
        """The talker is done with the stream: what has not been sent need not be."""

    def count(self) -> None:
        """One more segment has been sent."""
        self._sent += 1

    def when_open(self, go: Callable[[], None]) -> None:
        """Calls `go` once, now or as soon as the next segment may leave."""
        with self._lock:
            if not (self.is_over or self._sent < self._limit):
                self._waiting = go
                self._watch()
                return
        go()

    def update(self, progress: StreamProgress) -> None:
        with self._lock:
            self._has_talker = True
            if self._alarm is not None:
                self._alarm.cancel()
            self.is_over |= progress.is_over
            self._limit = max(self._limit, progress.spoken + self._max_ahead)
        self._release()

    def _watch(self) -> None:
        if not self._has_talker and self._alarm is None:
            self._alarm = threading.Timer(self._patience_s, self._give_up)
            self._alarm.daemon = True
            self._alarm.start()

    def _give_up(self) -> None:
        with self._lock:
            if not self._has_talker:
                self._limit = float("inf")
        self._release()

    def _release(self) -> None:
        with self._lock:
            go, self._waiting = self._waiting, None
        if go is not None:
            self.when_open(go)


class StreamPaces:
    """The paces of the streams that still have segments to send."""

    def __init__(self) -> None:
        self._paces: dict[int, StreamPace] = {}

    def open(self, stream: int) -> StreamPace:
        self._paces[stream] = pace = StreamPace()
        return pace

    def close(self, stream: int) -> None:
        self._paces.pop(stream, None)

    def update(self, progress: StreamProgress) -> None:
        pace = self._paces.get(progress.stream)
        if pace is not None:
            pace.update(progress)
