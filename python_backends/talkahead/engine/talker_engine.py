"""The talker: thread-safe doors around the loop, and the threads that serve it."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace

from talkahead.backbone.slot_decoder import SlotDecoder
from talkahead.engine.acknowledgements import LoadReport, WindowDone
from talkahead.engine.decode_step import DecodeStep
from talkahead.engine.emitter import Emitter
from talkahead.engine.engine_config import EngineConfig
from talkahead.engine.engine_telemetry import EngineTelemetry, NoTelemetry
from talkahead.engine.requests import SegmentRequest
from talkahead.engine.talker_loop import TalkerLoop
from talkahead.errors import Code, TalkaheadError
from talkahead.speculation.registry import DRAFTERS, VERIFIERS

_Event = Callable[[], None]


class TalkerEngine:
    """Speaks segments: `submit` from any thread, windows come out at each segment's outlet.

    Args:
        address: of the acknowledgement socket; with 0 there is no flow control.
        telemetry: told about stages, gauges and ends.
        clock: seconds that never go back.
    """

    def __init__(
        self,
        backbone: SlotDecoder,
        config: EngineConfig,
        *,
        address: int = 0,
        telemetry: EngineTelemetry | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._events: deque[_Event] = deque()
        self._wake = threading.Condition()
        self._closing = False
        self._failure: TalkaheadError | None = None
        self._emitter = Emitter()
        self._loop = TalkerLoop(
            backbone,
            DecodeStep(backbone, DRAFTERS["none"](), VERIFIERS["match"]()),
            config,
            post=self._emitter.post,
            on_broken=lambda generation, error: self._post(lambda: self._loop.broken(generation, error)),
            clock=clock,
            telemetry=telemetry or NoTelemetry(),
            address=address,
        )
        self._thread = threading.Thread(target=self._run, name="talker-loop", daemon=True)
        self._thread.start()

    @property
    def is_healthy(self) -> bool:
        """False once the loop has died; every request is then refused."""
        return self._failure is None

    def submit(self, segment: SegmentRequest) -> None:
        """Speak a segment. Whatever becomes of it is told to its outlet, also a refusal."""
        self._post(lambda: self._loop.submit(segment), otherwise=lambda: self._refuse(segment))

    def cancel(self, stream: int | None, request_id: str | None) -> int:
        """End a stream, or all streams of a request id; returns how many."""
        ended: Future[int] = Future()
        self._post(
            lambda: ended.set_result(self._loop.cancel(stream, request_id)),
            otherwise=lambda: ended.set_result(0),
        )
        return ended.result()

    def acknowledge(self, done: WindowDone) -> None:
        """A window has become audio, or failed to."""
        self._post(lambda: self._loop.acknowledge(done))

    def load(self) -> LoadReport:
        return replace(self._loop.load(), healthy=self.is_healthy)

    def wake(self) -> None:
        """Look at the clock again (for a clock that does not run by itself)."""
        self._post(lambda: None)

    def close(self) -> None:
        """End every stream with an error, then stop both threads."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        self._thread.join()
        self._emitter.close()

    def _post(self, event: _Event, otherwise: _Event | None = None) -> None:
        with self._wake:
            if not self._closing and self._failure is None:
                self._events.append(event)
                self._wake.notify()
                return
        if otherwise is not None:
            otherwise()

    def _refuse(self, segment: SegmentRequest) -> None:
        reason = self._failure or _shutting_down()
        self._emitter.post(lambda: segment.outlet.fail(reason))

    def _run(self) -> None:
        try:
            wait_s = 0.0
            while self._take_events(wait_s):
                wait_s = self._loop.turn()
            self._end(_shutting_down())
        except Exception as error:
            failure = TalkaheadError(f"the talker's loop failed: {type(error).__name__}: {error}", Code.INTERNAL)
            failure.__cause__ = error
            self._end(failure, is_failure=True)

    def _take_events(self, wait_s: float) -> bool:
        """Handle what has come in, waiting for it at most `wait_s`; False when the engine is to stop."""
        if wait_s > 0 or self._events or self._closing:
            with self._wake:
                if not self._events and not self._closing:
                    self._wake.wait(min(wait_s, threading.TIMEOUT_MAX))
                if self._closing:
                    return False
                events = list(self._events)
                self._events.clear()
            for event in events:
                event()
        return True

    def _end(self, error: TalkaheadError, is_failure: bool = False) -> None:
        """Nothing may be left hanging: what is open, and what came in meanwhile, ends with the error."""
        with self._wake:
            self._closing = True
            if is_failure:
                self._failure = error
            events = list(self._events)
            self._events.clear()
        for event in events:
            event()
        self._loop.fail_all(error)


def _shutting_down() -> TalkaheadError:
    return TalkaheadError("the server is shutting down", Code.UNAVAILABLE)
