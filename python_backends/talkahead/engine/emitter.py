"""Sends windows and ends from a thread of its own, so that a slow consumer never holds up a decode step."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import SimpleQueue

from talkahead.engine.requests import Outlet, Window
from talkahead.errors import TalkaheadError

Job = Callable[[], None]


class Channel:
    """The loop's end of one outlet. Calls are queued; whatever happens, the outlet is ended once.

    Args:
        post: runs a job on the emitter's thread.
        on_broken: called there, once, when the outlet has raised.
    """

    def __init__(
        self, outlet: Outlet, post: Callable[[Job], None], on_broken: Callable[[Channel], None]
    ) -> None:
        self._outlet = outlet
        self._post = post
        self._on_broken = on_broken
        self._is_broken = False
        self.is_open = True

    def send(self, window: Window) -> None:
        assert self.is_open, "a window after the end"
        self._post(lambda: self._send(window))

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            self._post(lambda: self._attempt(self._outlet.close))

    def fail(self, error: TalkaheadError) -> None:
        if self.is_open:
            self.is_open = False
            self._post(lambda: self._attempt(lambda: self._outlet.fail(error)))

    def _send(self, window: Window) -> None:
        if not self._is_broken:
            self._attempt(lambda: self._outlet.send(window))

    def _attempt(self, call: Job) -> None:
        try:
            call()
        except Exception:
            # The other side is gone: the loop frees the stream, and nobody is left to tell the reason to.
            if not self._is_broken:
                self._is_broken = True
                self._on_broken(self)


class Emitter:
    """Runs queued jobs in order on one thread.

    Args:
        observe: told how long each job took, in seconds, its wait in the queue included.
    """

    def __init__(self, observe: Callable[[float], None]) -> None:
        self._observe = observe
        self._door = threading.Lock()
        self._is_closed = False
        self._jobs: SimpleQueue[tuple[Job, float] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="talker-emitter", daemon=True)
        self._thread.start()

    def post(self, job: Job) -> None:
        """Once closed, a job runs on the caller's thread: who comes too late still gets a refusal."""
        with self._door:
            if not self._is_closed:
                self._jobs.put((job, time.monotonic()))
                return
        job()

    def close(self) -> None:
        """Finish what is queued, then stop."""
        with self._door:
            self._is_closed = True
            self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (queued := self._jobs.get()) is not None:
            job, posted_at = queued
            job()
            self._observe(time.monotonic() - posted_at)
