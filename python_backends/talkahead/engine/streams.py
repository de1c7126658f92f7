"""The open streams: what arrives for each, what becomes of its windows, and its one end."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterator

from talkahead.config import CHUNK_MS, FIRST_CHUNK_MS, patience
from talkahead.engine.early_cancels import EarlyCancels
from talkahead.engine.emitter import Channel
from talkahead.engine.engine_config import EngineConfig
from talkahead.engine.in_flight import NO_BATCH, Batch, SentWindow
from talkahead.engine.requests import SegmentRequest
from talkahead.engine.stream import Acknowledged, Arrivals, SegmentState, Stream
from talkahead.engine.windows import Cut, WindowPlan
from talkahead.errors import BadRequest, Code, DeadlinePassed, TalkaheadError
from talkahead.transport.messages import PassBegun, StreamProgress, WindowDone
from talkahead.types import Ending, StopReason, WindowHeader

_REMEMBERED_STREAMS = 4096
_OUR_FAULTS = (Code.INTERNAL, Code.UNAVAILABLE)
_ENDINGS = {Code.CANCELLED: Ending.CANCELLED, Code.RESOURCE_EXHAUSTED: Ending.REFUSED}


class Streams:
    """Keeps each stream from its first segment to its one end.

    Args:
        release: frees the slot of a segment.
        on_end: called once per stream, with how it ended.
        report_progress: tells the frontend at an address how far a stream is, while segments of it are still
            to come.
        log: told why a stream failed, where that is no fault of its client's.
    """

    def __init__(
        self,
        config: EngineConfig,
        *,
        release: Callable[[SegmentState], None],
        on_end: Callable[[Stream, Ending], None],
        report_progress: Callable[[int, StreamProgress], None],
        log: Callable[[str], None],
    ) -> None:
        self._config = config
        self._release = release
        self._on_end = on_end
        self._report = report_progress
        self._log = log
        self._streams: dict[int, Stream] = {}
        self._ended: OrderedDict[int, Arrivals] = OrderedDict()
        """Streams that ended before all their segments had arrived: the rest is closed as it comes."""
        self._awaited: OrderedDict[int, float] = OrderedDict()
        """Those of them whose rest should still come, and until when; the first that is due in front."""
        self._early_cancels = EarlyCancels()
        self._generation = 0
        self._batch = NO_BATCH
        self.num_in_flight = 0
        """Windows of all streams; counted along, because every window asks."""

    def __iter__(self) -> Iterator[Stream]:
        return iter(list(self._streams.values()))

    @property
    def num_arrived(self) -> int:
        """Streams that have begun to come, up to now."""
        return self._generation

    @property
    def num_open(self) -> int:
        """Streams whose client has not had the end yet, which comes after the last of their segments."""
        return len(self._streams) + len(self._awaited)

    def speaking(self) -> list[SegmentState]:
        """The segment that each stream is to speak now, where it has arrived."""
        return [
            stream.segment
            for stream in self._streams.values()
            if stream.is_speaking and stream.segment is not None
        ]

    # Arrival

    def arrive(self, request: SegmentRequest, channel: Channel, now: float) -> Stream | None:
        """A segment of a new stream or an open one. None when its stream takes no more, and it is closed."""
        id, stream = request.header.stream, self._streams.get(request.header.stream)
        arrivals = self._ended.get(id) if stream is None else stream.arrivals if stream.is_draining else None
        if arrivals is not None:
            arrivals.add(request.header)
            channel.close()
            if arrivals.are_complete:
                self._ended.pop(id, None)
                self._awaited.pop(id, None)
            return None
        is_new = stream is None
        stream = stream or self._open(request, now)
        if not stream.arrive(request, channel):
            channel.fail(BadRequest("SEGMENT", request.header.segment, "each segment of a stream once"))
            return None
        if is_new:
            self.report_progress(stream)
        return stream

    def _open(self, request: SegmentRequest, now: float) -> Stream:
        config, options, speech = self._config, request.options, self._config.speech
        self._generation += 1
        stream = Stream(
            request,
            self._generation,
            plan=WindowPlan(
                speech.context_frames,
                speech.lookahead_frames,
                options.first_chunk_frames or speech.frames_covering(options.speed * FIRST_CHUNK_MS),
                options.chunk_frames or speech.frames_covering(options.speed * CHUNK_MS),
                speech.unheard_frames,
            ),
            deadline=now + config.first_chunk_limit_s * patience(options.urgency),
            now=now,
        )
        self._streams[stream.id] = stream
        self._early_cancels.stream_opened(stream.request_id)
        return stream

    def was_cancelled(self, request_id: str, now: float) -> bool:
        """Whether a cancel for this request id came before its stream did."""
        return self._early_cancels.take(request_id, now)

    def cancel(self, stream_id: int | None, request_id: str | None, now: float) -> int:
        """End a stream, or all of a request id; one that has not arrived yet is ended when it does.

        Streams that are ending with an error already are met too, and go on with that.
        """
        chosen = [
            stream
            for stream in self
            if stream.id == stream_id or (request_id and stream.request_id == request_id)
        ]
        for stream in chosen:
            self.fail(stream, cancelled(), now)
        if request_id and not chosen:
            self._early_cancels.add(request_id, now)
        return len(chosen)

    # Windows in flight

    def send(self, segment: SegmentState, cut: Cut, window: SentWindow) -> None:
        """A window has left and awaits its acknowledgement."""
        segment.stream.send(segment, cut, window)
        self.num_in_flight += 1

    def expect(self, begun: PassBegun, now: float) -> None:
        """The vocoder is at work: until that is done, or takes far longer than it should, nobody is idle."""
        config, batch = self._config, self._batch.at(now)
        is_same = begun.oldest == batch.oldest
        self._batch = Batch(
            begun.oldest,
            sent_after=batch.sent_after if is_same else now - config.vanished_grace_s,
            heard_at=now,
            due_at=now + max(config.idle_timeout_s, config.patience * begun.seconds),
        )

    def acknowledge(self, done: WindowDone, now: float) -> Acknowledged | None:
        """A window is done. One of an earlier use of the stream's id, or told twice, is None."""
        stream = self._stream_of(done)
        acknowledged = None if stream is None else stream.acknowledge(done.chunk, done.ok, now)
        if stream is None or acknowledged is None:
            return None
        self.num_in_flight -= 1
        for other in self._streams.values() if self.num_in_flight else ():
            if other is not stream:
                other.in_flight.observe(acknowledged.window.sequence, now)
        if done.ok:
            self.settle(stream, now)
        else:
            self.fail(stream, TalkaheadError(f"the vocoder failed on chunk {done.chunk}"), now)
        return acknowledged

    def lose(self, window: WindowHeader, reason: str, now: float) -> None:
        """A window could not be sent: its stream ends."""
        stream = self._stream_of(window)
        if stream is not None:
            if stream.in_flight.remove(window.chunk):
                self.num_in_flight -= 1
            self.fail(stream, TalkaheadError(f"chunk {window.chunk} could not be sent: {reason}"), now)

    def _stream_of(self, window: WindowDone | WindowHeader) -> Stream | None:
        stream = self._streams.get(window.stream)
        return stream if stream is not None and stream.generation == window.generation else None

    def report_progress(self, stream: Stream, is_over: bool = False) -> None:
        """To its frontend, as long as that has segments to send."""
        if not stream.arrivals.are_complete:
            self._report(stream.frontend, StreamProgress(stream.id, stream.current, is_over))

    # Ends

    def fail(self, stream: Stream, error: TalkaheadError, now: float) -> None:
        """Stop decoding at once; the error goes out when it can be the last response."""
        if stream.fail(error, now):
            self._log_fault(stream, error)
            self._release_slots(stream)
            self.report_progress(stream, is_over=True)
        self.settle(stream, now)

    def settle(self, stream: Stream, now: float) -> None:
        """End a stream that is over and has nothing more to wait for."""
        if stream.settle(self._config.settle_s, now):
            self._end(stream, now, None if stream.failure is None else stream.failure.error)

    def fail_all(self, error: TalkaheadError) -> None:
        """End every stream now, without waiting for anything; slots are not looked at."""
        for stream in self:
            self._close(stream, error)

    def _give_up(self, stream: Stream, error: TalkaheadError) -> None:
        """End it now: what has not come is waited for no longer."""
        self._log_fault(stream, error)
        self._release_slots(stream)
        self._close(stream, error)

    def _give_up_idle(self, stream: Stream, now: float) -> None:
        """Its client has left, or nobody makes sound of its windows: who still listens is told so."""
        in_flight = stream.in_flight
        chunk, waited_s = in_flight.oldest_chunk, now - in_flight.heard_at(self._batch)
        idle = f"nothing has become of chunk {chunk} for {round(waited_s, 1):g} s: is the vocoder held up?"
        self._give_up(stream, TalkaheadError(idle, Code.UNAVAILABLE))

    def _give_up_missing(self, stream: Stream, now: float) -> None:
        """Its frontend owes the next segment."""
        self._give_up(stream, TalkaheadError(f"segment {stream.current} never reached the talker"))

    def _expire(self, stream: Stream, now: float) -> None:
        limit_ms = stream.options.deadline_ms
        assert limit_ms is not None
        self.fail(stream, DeadlinePassed(limit_ms), now)

    def _end_failed(self, stream: Stream, now: float) -> None:
        assert stream.failure is not None
        self._end(stream, now, stream.failure.error)

    def _end(self, stream: Stream, now: float, error: TalkaheadError | None = None) -> None:
        """With an error; or quietly, when all of it was acknowledged or its client has left."""
        self._release_slots(stream)
        self._close(stream, error)
        if not stream.arrivals.are_complete:
            self._awaited[stream.id] = now + self._config.segment_timeout_s

    def _close(self, stream: Stream, error: TalkaheadError | None) -> None:
        del self._streams[stream.id]
        self.num_in_flight -= len(stream.in_flight)
        ending = _ending(stream, error)
        stream.end(error)
        self.report_progress(stream, is_over=True)
        if not stream.arrivals.are_complete:
            self._ended[stream.id] = stream.arrivals
            if len(self._ended) > _REMEMBERED_STREAMS:
                self._ended.popitem(last=False)
        self._early_cancels.stream_ended(stream.request_id)
        self._on_end(stream, ending)

    def _release_slots(self, stream: Stream) -> None:
        for segment in stream.segments:
            self._release(segment)

    def _log_fault(self, stream: Stream, error: TalkaheadError) -> None:
        if error.code in _OUR_FAULTS:
            self._log(f"stream {stream.id} (request {stream.request_id!r}): {error}")

    # Time

    def check(self, now: float) -> float:
        """Do what has fallen due; returns when the next thing does."""
        next_at = math.inf
        for stream in self:
            # What is done may set the next alarm of the same stream.
            while stream.id in self._streams:
                at, act = min(self._alarms(stream, now), key=lambda alarm: alarm[0])
                if at > now:
                    next_at = min(next_at, at)
                    break
                act(stream, now)
        return min(next_at, self._rest_due_at(now))

    def _rest_due_at(self, now: float) -> float:
        """When the first rest that is awaited is due; what is late is awaited no longer."""
        while self._awaited:
            stream, due_at = next(iter(self._awaited.items()))
            if due_at > now:
                return due_at
            del self._awaited[stream]
        return math.inf

    def _alarms(self, stream: Stream, now: float) -> Iterator[tuple[float, Callable[[Stream, float], None]]]:
        """What falls due, some of it never, when nothing else happens to a stream; asked of all of them
        whenever something does."""
        config, failure, in_flight = self._config, stream.failure, stream.in_flight
        batch = self._batch.at(now)
        idle_at = in_flight.idle_at(config.idle_timeout_s, batch)
        vanished_at = in_flight.vanished_at(config.vanished_after, config.vanished_grace_s, batch)
        missing_at = stream.missing_since + config.segment_timeout_s
        if failure is not None:
            yield min(idle_at, vanished_at, missing_at, failure.due_at), self._end_failed
            return
        yield idle_at, self._give_up_idle
        yield vanished_at, self._end
        yield stream.expires_at, self._expire
        yield missing_at, self._give_up_missing


def cancelled() -> TalkaheadError:
    """The end that a client asked for."""
    return TalkaheadError("the stream was cancelled", Code.CANCELLED)


def _ending(stream: Stream, error: TalkaheadError | None) -> Ending:
    if isinstance(error, DeadlinePassed):
        return Ending.DEADLINE
    if error is not None:
        return _ENDINGS.get(error.code, Ending.ERROR)
    if isinstance(stream.ending, StopReason) and not stream.in_flight:
        return Ending[stream.ending.name]
    return Ending.VANISHED
