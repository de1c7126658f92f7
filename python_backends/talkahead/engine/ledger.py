"""The open streams: what has arrived of each, what is in flight, and its one end."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

from talkahead.audio.windows import WindowPlan
from talkahead.config import CHUNK_MS, FIRST_CHUNK_MS
from talkahead.engine.acknowledgements import StreamProgress, WindowDone
from talkahead.engine.emitter import Channel
from talkahead.engine.engine_config import EngineConfig
from talkahead.engine.requests import SegmentRequest
from talkahead.engine.stream import Phase, SentWindow, Speech, Stream
from talkahead.errors import BadRequest, Code, TalkaheadError
from talkahead.types import StopReason, WindowHeader

Key = TypeVar("Key")
Value = TypeVar("Value")

_REMEMBERED_STREAMS = 4096
_REMEMBERED_CANCEL_S = 10.0
_OUR_FAULTS = (Code.INTERNAL, Code.UNAVAILABLE)


class Ledger:
    """Keeps each stream from its first segment to its one end: `_finish`, `_end_with_error` or `drop`.

    Args:
        release: frees the slot of a segment.
        on_end: told once per stream, with the reason.
        tell: tells the frontend at an address how far a stream is, while segments of it are still to come.
        log: told why a stream failed, where that is no fault of its client's.
    """

    def __init__(
        self,
        config: EngineConfig,
        *,
        release: Callable[[Speech], None],
        on_end: Callable[[Stream, StopReason], None],
        tell: Callable[[int, StreamProgress], None],
        log: Callable[[str], None],
    ) -> None:
        self._config = config
        self._log = log
        self._tell = tell
        self._release = release
        self._on_end = on_end
        self._streams: dict[int, Stream] = {}
        self._ended: OrderedDict[int, Stream] = OrderedDict()
        """Streams that ended before all their segments had arrived: the rest is closed as it comes."""
        self._cancelled_ids: OrderedDict[str, float] = OrderedDict()
        self._finished_ids: OrderedDict[str, None] = OrderedDict()
        """Request ids whose streams are over, the longest ago in front."""
        self._generation = 0
        self.num_in_flight = 0

    def __iter__(self) -> Iterator[Stream]:
        return iter(list(self._streams.values()))

    def __len__(self) -> int:
        return len(self._streams)

    def speaking(self) -> list[Speech]:
        """The segment that each stream is to speak now, where it has arrived."""
        return [
            stream.speech
            for stream in self._streams.values()
            if stream.phase is Phase.SPEAKING and stream.speech is not None
        ]

    # Arrival

    def arrive(self, request: SegmentRequest, channel: Channel, now: float) -> Stream | None:
        """Book a segment: of a new stream or an open one. None when its stream has ended, which closes it."""
        header = request.header
        ended = self._ended.get(header.stream)
        stream = self._streams.get(header.stream)
        over = ended if stream is None else (stream if stream.phase is Phase.DRAINING else None)
        if over is not None:
            over.count_arrival(request)
            channel.close()
            if over.has_all_segments:
                self._ended.pop(header.stream, None)
            return None
        is_new = stream is None
        stream = stream or self._open(request, now)
        if header.segment in stream.speeches or header.segment < stream.current:
            channel.fail(BadRequest("SEGMENT", header.segment, "each segment of a stream once"))
            return None
        stream.count_arrival(request)
        stream.speeches[header.segment] = Speech(stream, request, channel)
        if is_new:
            self._tell_progress(stream)
        return stream

    def _open(self, request: SegmentRequest, now: float) -> Stream:
        config, options, speech = self._config, request.options, self._config.speech
        self._generation += 1
        stream = Stream(
            id=request.header.stream,
            frontend=request.header.frontend,
            generation=self._generation,
            request_id=request.request_id,
            options=options,
            plan=WindowPlan(
                speech.context_frames,
                speech.lookahead_frames,
                options.first_chunk_frames or speech.frames_covering(FIRST_CHUNK_MS),
                options.chunk_frames or speech.frames_covering(CHUNK_MS),
            ),
            arrived_at=now,
            deadline=now + config.first_chunk_limit_s * 2.0 ** (2 - options.urgency),
            progress_at=now,
            waiting_since=now,
        )
        self._streams[stream.id] = stream
        self._finished_ids.pop(stream.request_id, None)
        return stream

    def was_cancelled(self, request_id: str, now: float) -> bool:
        """Whether a cancel for this request id came before its stream did."""
        while self._cancelled_ids and now - next(iter(self._cancelled_ids.values())) > _REMEMBERED_CANCEL_S:
            self._cancelled_ids.popitem(last=False)
        return self._cancelled_ids.pop(request_id, None) is not None

    def cancel(self, stream_id: int | None, request_id: str | None, now: float) -> int:
        """End a stream, or all of a request id; one that has not arrived yet is ended when it does.

        Streams that are ending with an error already are met too, and go on with that. After a stream, a
        cancel of its request id is taken for late, also where the id is about to be used again: who meant
        the next one reads that nothing was met and asks again, but nobody asks again for a stream that was
        refused by mistake.
        """
        chosen = [
            stream
            for stream in self
            if stream.id == stream_id or (request_id and stream.request_id == request_id)
        ]
        for stream in chosen:
            self.fail(stream, cancelled(), now)
        if request_id and not chosen and request_id not in self._finished_ids:
            self._cancelled_ids[request_id] = now
        return len(chosen)

    # Windows in flight

    def sent(self, stream: Stream, window: SentWindow) -> None:
        """The stream's next window has left and awaits its acknowledgement."""
        stream.in_flight[stream.chunk] = window
        self.num_in_flight += 1

    def acknowledge(self, done: WindowDone, now: float) -> None:
        """A window is done. One of an earlier use of the stream's id, or told twice, changes nothing."""
        stream = self._streams.get(done.stream)
        if stream is None or stream.generation != done.generation or done.chunk not in stream.in_flight:
            return
        window = stream.in_flight.pop(done.chunk)
        self.num_in_flight -= 1
        self._notice_progress(window.sequence, now)
        stream.progress_at, stream.overtaken = now, 0
        if done.ok:
            stream.hear(window.seconds, now)
            self.settle(stream, now)
        else:
            self.fail(stream, TalkaheadError(f"the vocoder failed on chunk {done.chunk}"), now)

    def lose(self, window: WindowHeader, reason: str, now: float) -> None:
        """A window could not be sent: its stream ends."""
        stream = self._streams.get(window.stream)
        if stream is None or stream.generation != window.generation:
            return
        if stream.in_flight.pop(window.chunk, None) is not None:
            self.num_in_flight -= 1
        self.fail(stream, TalkaheadError(f"chunk {window.chunk} could not be sent: {reason}"), now)

    def _notice_progress(self, sequence: int, now: float) -> None:
        """The vocoder is at work; or it passes over those who have left."""
        for stream in self._streams.values():
            oldest = stream.oldest
            if oldest is None:
                continue
            if oldest.sequence > sequence:
                stream.progress_at = now
            else:
                stream.overtaken += 1

    # Progress

    def go_on(self, stream: Stream, now: float) -> None:
        """The current segment is done: on to the next one."""
        del stream.speeches[stream.current]
        stream.current += 1
        stream.waiting_since = now
        self._tell_progress(stream)

    def _tell_progress(self, stream: Stream, is_over: bool = False) -> None:
        if not stream.has_all_segments:
            self._tell(stream.frontend, StreamProgress(stream.id, stream.current, is_over))

    # Ends

    def fail(self, stream: Stream, error: TalkaheadError, now: float) -> None:
        """Stop decoding at once; the error goes out when it can be the last response."""
        if stream.phase is not Phase.FAILING:
            self._blame(stream, error)
            stream.phase = Phase.FAILING
            stream.error = error
            stream.is_blocked = False
            stream.waiting_since = now
            self._release_slots(stream)
            self._tell_progress(stream, is_over=True)
        self.settle(stream, now)

    def _blame(self, stream: Stream, error: TalkaheadError) -> None:
        if error.code in _OUR_FAULTS:
            self._log(f"stream {stream.id} (request {stream.request_id!r}): {error}")

    def settle(self, stream: Stream, now: float) -> None:
        """End a stream that is over and has nothing more to wait for."""
        if stream.in_flight:
            return
        if stream.phase is Phase.DRAINING:
            self._finish(stream)
        elif stream.phase is Phase.FAILING and stream.has_all_segments and stream.settled_at is None:
            stream.settled_at = now + (self._config.settle_s if stream.has_played else 0.0)
            if stream.settled_at <= now:
                self._end_with_error(stream)

    def _finish(self, stream: Stream) -> None:
        """Every window was sent and acknowledged."""
        self._close(stream)
        self._forget(stream, stream.reason)

    def _end_with_error(self, stream: Stream, error: TalkaheadError | None = None) -> None:
        """The other segments' outlets are closed first, so that the error is the last response."""
        told = error or stream.error or TalkaheadError("the stream was given up")
        teller = next((speech for speech in stream.speeches.values() if speech.channel.is_open), None)
        self._close(stream, keep=teller)
        if teller is not None:
            teller.channel.fail(told)
        self._forget(stream, StopReason.CANCELLED if told.code is Code.CANCELLED else StopReason.ERROR)

    def _give_up_idle(self, stream: Stream) -> None:
        """Its client has left, or nobody makes sound of its windows: who still listens is told so."""
        waited = f"{self._config.idle_timeout_s:g} s"
        idle = f"nothing has become of chunk {min(stream.in_flight)} for {waited}: is the vocoder held up?"
        self._give_up(stream, TalkaheadError(idle, Code.UNAVAILABLE))

    def _give_up(self, stream: Stream, error: TalkaheadError) -> None:
        """End it now, with what it waits for unsettled."""
        self._blame(stream, error)
        self._end_with_error(stream, error)

    def drop(self, stream: Stream) -> None:
        """Its client has left: close everything quietly."""
        self._close(stream)
        self._forget(stream, StopReason.CANCELLED)

    def fail_all(self, error: TalkaheadError) -> None:
        """End every stream now, without waiting for anything; slots are not looked at."""
        self._release = lambda speech: None
        for stream in self:
            self._end_with_error(stream, error)

    def _close(self, stream: Stream, keep: Speech | None = None) -> None:
        self._release_slots(stream)
        for speech in stream.others(keep):
            speech.channel.close()

    def _release_slots(self, stream: Stream) -> None:
        for speech in stream.speeches.values():
            self._release(speech)

    def _forget(self, stream: Stream, reason: StopReason) -> None:
        del self._streams[stream.id]
        self.num_in_flight -= len(stream.in_flight)
        stream.in_flight.clear()
        stream.speeches.clear()
        self._tell_progress(stream, is_over=True)
        if not stream.has_all_segments:
            _remember(self._ended, stream.id, stream)
        if stream.request_id:
            _remember(self._finished_ids, stream.request_id, None)
        self._on_end(stream, reason)

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
                act()
        return next_at

    def _alarms(self, stream: Stream, now: float) -> Iterator[tuple[float, Callable[[], None]]]:
        """What falls due when nothing else happens to a stream."""
        config, options = self._config, stream.options
        is_failing = stream.phase is Phase.FAILING
        give_up = partial(self._end_with_error if is_failing else self.drop, stream)
        oldest = stream.oldest
        yield math.inf, give_up
        if oldest is not None:
            give_up_idle = give_up if is_failing else partial(self._give_up_idle, stream)
            yield max(oldest.sent_at, stream.progress_at) + config.idle_timeout_s, give_up_idle
            if stream.overtaken >= config.vanished_after:
                yield oldest.sent_at + config.vanished_grace_s, give_up
        if stream.settled_at is not None:
            yield stream.settled_at, give_up
        if is_failing and not stream.has_all_segments:
            yield stream.waiting_since + config.segment_timeout_s, give_up
        if not is_failing and options.deadline_ms is not None:
            passed = TalkaheadError(f"deadline_ms: {options.deadline_ms} ms have passed", Code.CANCELLED)
            yield stream.arrived_at + 1e-3 * options.deadline_ms, partial(self.fail, stream, passed, now)
        if stream.phase is Phase.SPEAKING and stream.speech is None:
            lost = TalkaheadError(f"segment {stream.current} never reached the talker")
            yield stream.waiting_since + config.segment_timeout_s, partial(self._give_up, stream, lost)


def _remember(memory: OrderedDict[Key, Value], key: Key, value: Value) -> None:
    """As the latest; the oldest is forgotten."""
    memory[key] = value
    memory.move_to_end(key)
    if len(memory) > _REMEMBERED_STREAMS:
        memory.popitem(last=False)


def cancelled() -> TalkaheadError:
    """The end that a client asked for."""
    return TalkaheadError("the stream was cancelled", Code.CANCELLED)
