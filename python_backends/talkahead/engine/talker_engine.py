"""The talker: thread-safe doors around the loop, and the threads that serve it."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial

from talkahead.backbone.backbone import Backbone
from talkahead.engine.decode_step import DecodeStep
from talkahead.engine.emitter import Channel, Emitter
from talkahead.engine.engine_config import EngineConfig
from talkahead.engine.engine_telemetry import EngineTelemetry, NoTelemetry
from talkahead.engine.native_steps import Bell
from talkahead.engine.requests import SegmentRequest, Window
from talkahead.engine.talker_loop import TalkerLoop
from talkahead.errors import Code, TalkaheadError
from talkahead.speculation.match_verifier import MatchVerifier
from talkahead.speculation.null_drafter import NullDrafter
from talkahead.transport.messages import LoadReport, PassBegun, StreamProgress, Waits, WindowDone
from talkahead.types import WindowHeader


@dataclass(frozen=True)
class _Submission:
    request: SegmentRequest
    channel: Channel


@dataclass(frozen=True)
class _Cancel:
    stream: int | None
    request_id: str | None
    ended: Future[int] = field(default_factory=Future)


@dataclass(frozen=True)
class _Loss:
    window: WindowHeader
    reason: str


@dataclass(frozen=True)
class _LookAtClock:
    pass


_Event = _Submission | _Cancel | WindowDone | PassBegun | _Loss | _LookAtClock


class TalkerEngine:
    """Speaks segments: `submit` from any thread, windows come out at each segment's outlet.

    Where the loop's thread fails, every stream is told so, then the exception leaves the thread: what becomes
    of a process that speaks no more is decided by `threading.excepthook`.

    Args:
        address: of the acknowledgement socket; with 0 there is no flow control.
        telemetry: told about stages, gauges and ends.
        report_progress: tells the frontend at an address how far a stream is; must return at once.
        tell_waits: lets newcomers know what they would find; must return at once.
        log: told of what fails here, for the server's log; must return at once.
        clock: seconds that never go back.
        step: over the backbone's slots, which nobody else is in meanwhile; None: one of its own.
    """

    def __init__(
        self,
        backbone: Backbone,
        config: EngineConfig,
        *,
        address: int = 0,
        telemetry: EngineTelemetry | None = None,
        report_progress: Callable[[int, StreamProgress], None] = lambda address, progress: None,
        tell_waits: Callable[[Waits], None] = lambda waits: None,
        log: Callable[[str], None] = lambda line: None,
        clock: Callable[[], float] = time.monotonic,
        step: DecodeStep | None = None,
    ) -> None:
        self._events: deque[_Event] = deque()
        self._door = threading.Condition()
        self._bell = Bell()
        self._end: TalkaheadError | None = None
        """Why nothing is taken in any more."""
        self._log = log
        telemetry = telemetry or NoTelemetry()
        self._observe_emission = partial(telemetry.stage, "emit")
        self._emitter = Emitter()
        self._loop = TalkerLoop(
            backbone,
            step or DecodeStep(backbone, NullDrafter(), MatchVerifier(), allowed=config.tokens.allowed),
            config,
            clock=clock,
            telemetry=telemetry,
            bell=self._bell,
            address=address,
            report_progress=report_progress,
            tell_waits=tell_waits,
            log=log,
        )
        self._thread = threading.Thread(target=self._run, name="talker-loop", daemon=True)
        self._thread.start()

    def submit(self, segment: SegmentRequest) -> None:
        """Speak a segment. Whatever becomes of it is told to its outlet, also a refusal."""
        channel = Channel(segment.outlet, self._emitter.post, self._lose, self._log, self._observe_emission)
        self._post(_Submission(segment, channel))

    def cancel(self, stream: int | None, request_id: str | None) -> int:
        """End a stream, or all streams of a request id; returns how many."""
        cancel = _Cancel(stream, request_id)
        self._post(cancel)
        return cancel.ended.result()

    def acknowledge(self, done: WindowDone) -> None:
        """A window has become audio, or failed to."""
        self._post(done)

    def expect(self, begun: PassBegun) -> None:
        """The vocoder is at work."""
        self._post(begun)

    def load(self) -> LoadReport:
        return self._loop.load

    def look_at_clock(self) -> None:
        """For a clock that jumps."""
        self._post(_LookAtClock())

    def close(self) -> None:
        """End every stream with an error, then stop both threads."""
        self._shut(TalkaheadError("the server is shutting down", Code.UNAVAILABLE))
        self._thread.join()

    def _lose(self, window: Window, failure: Exception) -> None:
        self._post(_Loss(window.header, f"{type(failure).__name__}: {failure}"))

    def _post(self, event: _Event) -> None:
        with self._door:
            end = self._end
            if end is None:
                self._events.append(event)
                self._door.notify()
                if not isinstance(event, WindowDone | PassBegun):
                    self._bell.ring()
        if end is not None:
            _refuse(event, end)

    def _shut(self, end: TalkaheadError) -> None:
        with self._door:
            self._end = self._end or end
            self._door.notify()
            self._bell.ring()

    # The loop's thread

    def _run(self) -> None:
        try:
            wait_s = 0.0
            while self._handle_events(wait_s):
                wait_s = self._loop.turn()
        except Exception as error:
            end = TalkaheadError(f"the talker's loop failed: {type(error).__name__}: {error}")
            self._log(str(end))
            self._shut(end)
            raise
        finally:
            self._end_all()

    def _end_all(self) -> None:
        """Returns when everybody has been told the reason."""
        assert self._end is not None
        self._loop.fail_all(self._end)
        for event in self._events:
            _refuse(event, self._end)
        self._emitter.close()

    def _handle_events(self, wait_s: float) -> bool:
        """Handle what has come in, after a wait of at most `wait_s`; False when it is time to stop."""
        if wait_s > 0:
            with self._door:
                if not self._events and self._end is None:
                    self._door.wait(min(wait_s, threading.TIMEOUT_MAX))
        self._bell.silence()
        while self._events and self._end is None:
            self._handle(self._events[0])
            # Taken out only now: if handling it has failed, it is refused at the end.
            self._events.popleft()
        return self._end is None

    def _handle(self, event: _Event) -> None:
        match event:
            case _Submission(request, channel):
                self._loop.submit(request, channel)
            case WindowDone():
                self._loop.acknowledge(event)
            case PassBegun():
                self._loop.expect(event)
            case _Cancel(stream, request_id, ended):
                ended.set_result(self._loop.cancel(stream, request_id))
            case _Loss(window, reason):
                self._loop.lose(window, reason)
            case _LookAtClock():
                self._loop.look_at_clock()


def _refuse(event: _Event, end: TalkaheadError) -> None:
    """Nobody may be left hanging: what came too late ends with the reason."""
    match event:
        case _Submission(_, channel):
            channel.fail(end)
        case _Cancel(_, _, ended) if not ended.done():
            ended.set_result(0)
        case _:
            pass
