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
        on_lost: told there of a window that the outlet raised on, and of those after it, which are not sent.
        log: told there why an end could not be told.
        observe: told there how long a stream's first window took, in seconds, with its wait for the thread.
    """

    def __init__(
        self,
        outlet: Outlet,
        post: Callable[[Job], None],
        on_lost: Callable[[Window, Exception], None],
        log: Callable[[str], None],
        observe: Callable[[float], None] = lambda seconds: None,
    ) -> None:
        self._outlet = outlet
        self._post = post
        self._on_lost = on_lost
        self._observe = observe
        self._log = log
        self._failure: Exception | None = None
        self.is_open = True

    def send(self, window: Window) -> None:
        assert self.is_open, "a window after the end"
        self._post(self._timed(window) if window.header.chunk == 0 else lambda: self._send(window))

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            self._post(lambda: self._end(self._outlet.close))

    def fail(self, error: TalkaheadError) -> None:
        if self.is_open:
            self.is_open = False
            self._post(lambda: self._end(lambda: self._outlet.fail(error)))

    def _timed(self, window: Window) -> Job:
        """Sends it, and tells how long that took."""
        posted_at = time.monotonic()

        def send() -> None:
            self._send(window)
            self._observe(time.monotonic() - posted_at)

        return send

    def _send(self, window: Window) -> None:
        if self._failure is None:
            try:
                self._outlet.send(window)
            except Exception as failure:
                self._failure = failure
        if self._failure is not None:
            self._on_lost(window, self._failure)

    def _end(self, call: Job) -> None:
        try:
            call()
        except Exception as failure:
            # Nobody is left to tell it to.
            self._log(f"the end of a segment: {type(failure).__name__}: {failure}")


class Emitter:
    """Runs queued jobs in order on one thread."""

    def __init__(self) -> None:
        self._door = threading.Lock()
        self._is_closed = False
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="talker-emitter", daemon=True)
        self._thread.start()

    def post(self, job: Job) -> None:
        """Once closed, a job runs on the caller's thread: who comes too late still gets a refusal."""
        with self._door:
            if not self._is_closed:
                self._jobs.put(job)
                return
        job()

    def close(self) -> None:
        """Finish what is queued, then stop."""
        with self._door:
            self._is_closed = True
            self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
