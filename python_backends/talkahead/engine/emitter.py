"""Sends windows and ends from a thread of its own, so that a slow consumer never holds up a decode step."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

from talkahead.engine.requests import Outlet, Window
from talkahead.errors import TalkaheadError

_Job = Callable[[], None]


class Channel:
    """The loop's end of one outlet: calls are queued; it ends once, and a broken outlet is told so at most once."""

    def __init__(self, outlet: Outlet, post: Callable[[_Job], None], on_broken: Callable[[Exception], None]) -> None:
        self._outlet = outlet
        self._post = post
        self._on_broken = on_broken
        self._broken = False
        self.is_open = True

    def send(self, window: Window) -> None:
        assert self.is_open, "a window after the end"
        self._post(lambda: self._attempt(lambda: self._outlet.send(window)))

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            self._post(lambda: self._attempt(self._outlet.close, is_end=True))

    def fail(self, error: TalkaheadError) -> None:
        if self.is_open:
            self.is_open = False
            self._post(lambda: self._attempt(lambda: self._outlet.fail(error), is_end=True))

    def _attempt(self, call: _Job, is_end: bool = False) -> None:
        if self._broken and not is_end:
            return
        try:
            call()
        except Exception as error:
            # The other side is gone: the loop ends the stream; nobody is left to tell.
            if not self._broken:
                self._broken = True
                self._on_broken(error)


class Emitter:
    """Runs queued jobs in order on one thread."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="talker-emitter", daemon=True)
        self._thread.start()

    def post(self, job: _Job) -> None:
        self._jobs.put(job)

    def close(self) -> None:
        """Finish what is queued, then stop."""
        self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
