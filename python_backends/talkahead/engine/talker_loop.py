"""The talker's loop: admit, step, cut windows, keep account of each stream until its one end.

Everything here runs on one thread and takes the time from its clock, so that a test can drive it turn by turn.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from talkahead.audio.windows import Cut, WindowPlan
from talkahead.backbone.slot_decoder import SlotDecoder
from talkahead.engine.acknowledgements import LoadReport, WindowDone
from talkahead.engine.decode_step import Admission, DecodeStep
from talkahead.engine.emitter import Channel
from talkahead.engine.engine_config import EngineConfig
from talkahead.engine.engine_telemetry import EngineTelemetry
from talkahead.engine.requests import SegmentRequest, Window
from talkahead.engine.schedule import Contender, choose
from talkahead.engine.slot_table import SlotTable
from talkahead.engine.stream import Phase, SentWindow, Speech, Stream
from talkahead.errors import BadRequest, Code, TalkaheadError
from talkahead.types import Stats, StopReason, WindowHeader

_SMOOTHING = 0.1
_REMEMBERED_STREAMS = 4096
_REMEMBERED_CANCEL_S = 10.0


@dataclass
class _Pace:
    """Running means that predictions are made from, in seconds."""

    step_s: float = 0.002
    prefill_s: float = 0.01
    slot_s: float = 2.0

    def see(self, name: str, seconds: float) -> None:
        setattr(self, name, getattr(self, name) + _SMOOTHING * (seconds - getattr(self, name)))


class TalkerLoop:
    """Streams and slots. `turn` does one iteration; the other public methods are what may happen in between.

    Args:
        post: runs a job on the emitter's thread.
        on_broken: called on the emitter's thread when a stream's outlet raised.
        address: of the acknowledgement socket; 0 means that windows count as acknowledged when they are sent.
    """

    def __init__(
        self,
        backbone: SlotDecoder,
        step: DecodeStep,
        config: EngineConfig,
        *,
        post: Callable[[Callable[[], None]], None],
        on_broken: Callable[[int, Exception], None],
        clock: Callable[[], float],
        telemetry: EngineTelemetry,
        address: int,
    ) -> None:
        self._backbone = backbone
        self._step = step
        self._config = config
        self._post = post
        self._on_broken = on_broken
        self._clock = clock
        self._telemetry = telemetry
        self._address = address
        self._table: SlotTable[Speech] = SlotTable(
            step, backbone.num_slots, backbone.max_positions, backbone.eos
        )
        self._streams: dict[int, Stream] = {}
        self._ended: OrderedDict[int, Stream] = OrderedDict()
        self._cancelled_ids: OrderedDict[str, float] = OrderedDict()
        self._num_in_flight = 0
        self._generation = 0
        self._sequence = 0
        self._pace = _Pace()
        self._changed = True
        self._running: slice | None = None
        self._review_at = math.inf
        self._timer_at = math.inf
        self._gauges = (0, 0, 0)

    # What may happen between turns

    def submit(self, request: SegmentRequest) -> None:
        """A segment has arrived: of a new stream, of one that is open, or of one that has ended already."""
        self._changed = True
        now = self._clock()
        header = request.header
        stream = self._streams.get(header.stream)
        ended = self._ended.get(header.stream)
        if stream is None and ended is not None and not ended.is_complete:
            self._count_arrival(ended, request)
            self._channel(ended, request).close()
            return
        if stream is None:
            stream = self._open(request, now)
        if stream.phase is Phase.DRAINING:
            self._count_arrival(stream, request)
            self._channel(stream, request).close()
            return
        if header.segment in stream.speeches or header.segment < stream.current:
            taken = BadRequest("SEGMENT", header.segment, "each segment of a stream once")
            self._channel(stream, request).fail(taken)
            return
        self._count_arrival(stream, request)
        stream.speeches[header.segment] = Speech(stream, request, self._channel(stream, request))
        problem = self._unfit(request)
        if problem is not None:
            self._fail(stream, problem)
        self._settle(stream, now)

    def acknowledge(self, done: WindowDone) -> None:
        """The vocoder is done with a window. One of an earlier use of the id, or sent twice, changes nothing."""
        stream = self._streams.get(done.stream)
        if stream is None or stream.generation != done.generation or done.chunk not in stream.in_flight:
            return
        self._changed = True
        window = stream.in_flight.pop(done.chunk)
        self._num_in_flight -= 1
        now = self._clock()
        self._notice_progress(window.sequence, now)
        stream.progress_at, stream.overtaken = now, 0
        if not done.ok:
            self._fail(stream, TalkaheadError(f"the vocoder failed on chunk {done.chunk}", Code.INTERNAL))
        elif stream.phase is Phase.SPEAKING:
            stream.played_until(window.seconds, now)
        self._settle(stream, now)
        self._unblock(now)

    def cancel(self, stream_id: int | None, request_id: str | None) -> int:
        """End a stream, or all of a request id; one that has not arrived yet is ended when it does."""
        self._changed = True
        chosen = [
            stream
            for stream in self._streams.values()
            if stream.phase is not Phase.FAILING
            and (stream.id == stream_id or (request_id and stream.request_id == request_id))
        ]
        for stream in chosen:
            self._fail_now(stream, _cancelled())
        if request_id and not chosen:
            self._cancelled_ids[request_id] = self._clock()
        return len(chosen)

    def broken(self, generation: int, error: Exception) -> None:
        """A stream's outlet raised: nobody can be told, so it is freed."""
        self._changed = True
        for stream in list(self._streams.values()):
            if stream.generation == generation:
                self._drop(stream)

    def fail_all(self, error: TalkaheadError) -> None:
        """End every stream now, without waiting for anything."""
        for stream in list(self._streams.values()):
            self._end_with_error(stream, error)

    def load(self) -> LoadReport:
        active, queued, open_streams = self._gauges
        return LoadReport(
            active=active,
            queued=queued,
            open_streams=open_streams,
            slots=self._backbone.num_slots,
            predicted_first_chunk_ms=1e3 * self._predicted_first_chunk_s(queued),
        )

    # The iteration

    def turn(self) -> float:
        """One iteration. Returns 0 when there is more to do, else the seconds until something falls due."""
        now = self._clock()
        if self._changed or now >= self._timer_at:
            self._admit(now)
            self._check_timers(now)
        if self._changed or now >= self._review_at:
            self._schedule(now)
            self._report()
            self._changed = False
        if self._running is None:
            return max(min(self._timer_at, self._review_at) - self._clock(), 0.0)
        self._run_step(self._running)
        return 0.0

    def _run_step(self, rows: slice) -> None:
        before = self._clock()
        drawn = self._step.run(rows)
        due = self._table.add(rows, drawn)
        now = self._clock()
        self._pace.see("step_s", now - before)
        self._telemetry.stage("step", now - before)
        for speech in due:
            self._changed = True
            self._advance(speech.stream, now)

    def _schedule(self, now: float) -> None:
        speaking = [
            speech
            for speech in self._current_speeches()
            if speech.is_admitted and not speech.stream.is_blocked
        ]
        contenders = [
            Contender(index, speech.stream.deadline, speech.stream.is_newcomer)
            for index, speech in enumerate(speaking)
        ]
        choice = choose(
            contenders,
            now,
            max_rows=self._config.max_step_rows or self._backbone.num_slots,
            max_lead_s=self._config.max_lead_s,
        )
        self._review_at = choice.review_at
        slots = [self._table.slot_of(speaking[key]) for key in choice.keys]
        self._running = self._table.arrange(slots) if slots else None

    def _current_speeches(self) -> Iterable[Speech]:
        for stream in self._streams.values():
            if stream.phase is Phase.SPEAKING and stream.speech is not None:
                yield stream.speech

    def _num_queued(self) -> int:
        return sum(not speech.is_admitted for speech in self._current_speeches())

    # Arrival and admission

    def _open(self, request: SegmentRequest, now: float) -> Stream:
        options, header = request.options, request.header
        self._generation += 1
        stream = Stream(
            id=header.stream,
            generation=self._generation,
            request_id=request.request_id,
            options=options,
            plan=WindowPlan(
                self._config.context_frames,
                self._config.lookahead_frames,
                options.first_chunk_frames,
                options.chunk_frames,
            ),
            arrived_at=now,
            deadline=now + self._config.first_chunk_limit_s * 2.0 ** (2 - options.urgency),
            progress_at=now,
            waiting_since=now,
        )
        queued = self._num_queued()
        self._ended.pop(stream.id, None)
        self._streams[stream.id] = stream
        if self._was_cancelled(request.request_id, now):
            self._fail(stream, _cancelled())
        elif queued >= self._config.max_pending and self._table.num_free <= queued:
            wait_ms = 1e3 * self._predicted_first_chunk_s(queued)
            self._fail(
                stream,
                TalkaheadError(
                    f"{queued} streams wait already; a new one would wait about {wait_ms:.0f} ms: try again then",
                    Code.RESOURCE_EXHAUSTED,
                ),
            )
        return stream

    def _was_cancelled(self, request_id: str, now: float) -> bool:
        while self._cancelled_ids and now - next(iter(self._cancelled_ids.values())) > _REMEMBERED_CANCEL_S:
            self._cancelled_ids.popitem(last=False)
        return self._cancelled_ids.pop(request_id, None) is not None

    def _channel(self, stream: Stream, request: SegmentRequest) -> Channel:
        generation = stream.generation
        return Channel(request.outlet, self._post, lambda error: self._on_broken(generation, error))

    def _count_arrival(self, stream: Stream, request: SegmentRequest) -> None:
        stream.num_arrived += 1
        if request.header.last:
            stream.num_segments = request.header.segment + 1

    def _unfit(self, request: SegmentRequest) -> TalkaheadError | None:
        """Why this prompt cannot be spoken."""
        prompt = request.prompt
        if prompt.ndim != 2 or prompt.shape[1] != self._backbone.hidden_size or not len(prompt):
            return BadRequest("PROMPT", prompt.shape, f"[P, {self._backbone.hidden_size}] with P of at least 1")
        if len(prompt) >= self._backbone.max_positions:
            return BadRequest("PROMPT", prompt.shape, f"at most {self._backbone.max_positions - 1} rows")
        if not np.isfinite(prompt).all():
            return TalkaheadError("PROMPT: the encoder sent numbers that are not finite", Code.INTERNAL)
        return None

    def _predicted_first_chunk_s(self, queued: int) -> float:
        """For one more stream: its own prefill and steps, after a slot for it has become free."""
        steps = 2 + self._config.lookahead_frames
        ahead = max(queued + 1 - self._table.num_free, 0)
        return ahead * self._pace.slot_s / self._backbone.num_slots + self._pace.prefill_s + steps * self._pace.step_s

    def _admit(self, now: float) -> None:
        """Give slots by deadline, and prefill all who got one together; what is left over goes to prefetches."""
        waiting = sorted(
            (speech for speech in self._current_speeches() if not speech.is_admitted),
            key=lambda speech: (speech.stream.deadline, speech.stream.generation),
        )
        admitted = waiting[: self._table.num_free]
        if not waiting:
            admitted = self._prefetches()[: min(self._table.num_free, 1)]
        if admitted:
            self._prefill(admitted, now)

    def _prefetches(self) -> list[Speech]:
        """Next segments of streams whose first window has left, the first to run dry in front."""
        following = [
            stream.speeches[stream.current + 1]
            for stream in self._streams.values()
            if stream.phase is Phase.SPEAKING and not stream.is_newcomer and stream.current + 1 in stream.speeches
        ]
        return sorted(
            (speech for speech in following if not speech.is_admitted), key=lambda speech: speech.stream.deadline
        )

    def _prefill(self, speeches: list[Speech], now: float) -> None:
        self._changed = True
        slots = [self._table.claim(speech) for speech in speeches]
        tokens = self._step.admit(
            [
                Admission(
                    slot,
                    torch.from_numpy(np.ascontiguousarray(speech.request.prompt)),
                    speech.request.options,
                    speech.request.header.seed,
                    speech.index,
                )
                for slot, speech in zip(slots, speeches, strict=True)
            ]
        )
        done = self._clock()
        self._pace.see("prefill_s", done - now)
        self._telemetry.stage("prefill", done - now)
        for slot, speech, token in zip(slots, speeches, tokens, strict=True):
            speech.is_admitted = True
            self._table.start(slot, int(token))
            if speech.stream.first_slot_at is None:
                speech.stream.first_slot_at = now
                self._telemetry.stage("queue", now - speech.stream.arrived_at)
            if speech.index == speech.stream.current:
                self._advance(speech.stream, done)

    # Windows

    def _advance(self, stream: Stream, now: float) -> None:
        """Send what windows can be sent, and set when the current segment must be looked at again."""
        while (speech := stream.speech) is not None and speech.is_admitted and stream.phase is Phase.SPEAKING:
            slot = self._table.slot_of(speech)
            cap = self._cap(stream, speech)
            frames = min(int(self._table.counts[slot]), cap)
            ended = bool(self._table.ended[slot]) or frames == cap
            cut = stream.plan.cut(speech.start, stream.chunk, frames, ended)
            stream.is_blocked = cut is not None and not self._may_send(stream)
            if cut is None:
                self._table.wake_at[slot] = min(stream.plan.frames_needed(speech.start, stream.chunk), cap)
                return
            if stream.is_blocked:
                return
            if cut.is_last and not bool(self._table.ended[slot]):
                stream.hit_length = True
            self._send(stream, speech, slot, cut, now)
            if cut.is_last:
                self._finish_segment(stream, speech, slot, stream.reason is not StopReason.RUNNING, now)

    def _cap(self, stream: Stream, speech: Speech) -> int:
        """Frames that this segment may have: what the slot holds, and what max_seconds leaves."""
        room = self._backbone.max_positions - len(speech.request.prompt)
        return max(min(room, self._seconds_left(stream, speech)), 1)

    def _seconds_left(self, stream: Stream, speech: Speech) -> int:
        """Frames of `max_seconds` that are left for this segment."""
        allowed = int(stream.options.max_seconds * self._config.frames_per_s)
        return allowed - (stream.frames_sent - speech.start)

    def _may_send(self, stream: Stream) -> bool:
        return (
            len(stream.in_flight) < self._config.max_windows_per_stream
            and self._num_in_flight < self._config.max_windows
        )

    def _send(self, stream: Stream, speech: Speech, slot: int, cut: Cut, now: float) -> None:
        stream.frames_sent += cut.new
        speech.start = cut.stop
        reason = stream.reason = self._reason(stream, speech, slot, cut)
        is_last = reason is not StopReason.RUNNING
        if cut.is_last:
            stream.spoken_chars = speech.request.header.char_end
        if is_last:
            for other in stream.speeches.values():
                if other is not speech:
                    self._free(other)
                    other.channel.close()
        header = WindowHeader(
            address=self._address,
            stream=stream.id,
            generation=stream.generation,
            chunk=stream.chunk,
            sequence=self._sequence,
            context=cut.context,
            new=cut.new,
            lookahead=cut.lookahead,
            last=int(is_last),
            reason=int(reason),
        )
        frames = self._table.frames[slot, cut.first : cut.beyond].copy()
        speech.channel.send(Window(header, frames, self._stats(stream, speech, slot, reason)))
        self._account(stream, cut.new / self._config.frames_per_s, now)

    def _account(self, stream: Stream, seconds: float, now: float) -> None:
        """A window has left."""
        if stream.is_newcomer:
            self._telemetry.stage("first_window", now - stream.arrived_at)
        if self._address:
            stream.in_flight[stream.chunk] = SentWindow(self._sequence, now, seconds)
            self._num_in_flight += 1
        else:
            stream.played_until(seconds, now)
        stream.chunk += 1
        self._sequence += 1

    def _reason(self, stream: Stream, speech: Speech, slot: int, cut: Cut) -> StopReason:
        """Why the stream ends with this window, or RUNNING."""
        if not cut.is_last:
            return StopReason.RUNNING
        spoken_out = speech.is_final and bool(self._table.ended[slot])
        if not spoken_out and self._seconds_left(stream, speech) <= speech.start:
            return StopReason.MAX_SECONDS
        if not speech.is_final:
            return StopReason.RUNNING
        return StopReason.LENGTH if stream.hit_length else StopReason.END_OF_SPEECH

    def _stats(self, stream: Stream, speech: Speech, slot: int, reason: StopReason) -> Stats:
        steps, drafted, accepted = self._totals(stream, slot)
        return Stats(
            stream=stream.id,
            seed=speech.request.header.seed,
            frames=stream.frames_sent,
            target_steps=steps,
            drafted=drafted,
            accepted=accepted,
            pool_size=sum(one.phase is Phase.SPEAKING for one in self._streams.values()),
            stop_reason=int(reason),
            char_end=stream.spoken_chars,
        )

    def _finish_segment(self, stream: Stream, speech: Speech, slot: int, is_over: bool, now: float) -> None:
        """The segment's last window has left: on to the next, or wait for the last acknowledgements."""
        stream.totals = self._totals(stream, slot)
        self._free(speech)
        if is_over:
            stream.phase = Phase.DRAINING
            self._settle(stream, now)
            return
        speech.channel.close()
        del stream.speeches[stream.current]
        stream.current += 1
        stream.waiting_since = now

    def _totals(self, stream: Stream, slot: int) -> tuple[int, int, int]:
        steps, drafted, accepted = (
            before + int(here) for before, here in zip(stream.totals, self._table.totals[slot], strict=True)
        )
        return steps, drafted, accepted

    # Acknowledgements

    def _notice_progress(self, sequence: int, now: float) -> None:
        """A window was acknowledged: the vocoder is at work, or it passes over those who have left."""
        for stream in self._streams.values():
            oldest = stream.oldest
            if oldest is not None and oldest.sequence > sequence:
                stream.progress_at = now
            elif oldest is not None:
                stream.overtaken += 1

    def _unblock(self, now: float) -> None:
        blocked = [stream for stream in self._streams.values() if stream.is_blocked]
        for stream in sorted(blocked, key=lambda stream: stream.deadline):
            self._advance(stream, now)

    # The end of a stream: exactly one of _finish, _end_with_error and _drop

    def _fail(self, stream: Stream, error: TalkaheadError) -> None:
        """Stop decoding at once; the error goes out when it can be the last response."""
        if stream.phase is Phase.FAILING:
            return
        stream.phase = Phase.FAILING
        stream.error = error
        stream.is_blocked = False
        stream.waiting_since = self._clock()
        for speech in stream.speeches.values():
            self._free(speech)

    def _settle(self, stream: Stream, now: float) -> None:
        """End a stream that has nothing more to wait for."""
        if stream.in_flight:
            return
        if stream.phase is Phase.DRAINING:
            self._finish(stream)
        elif stream.phase is Phase.FAILING and stream.is_complete and stream.settled_at is None:
            stream.settled_at = now + (self._config.settle_s if stream.chunk and self._address else 0.0)
            if stream.settled_at <= now:
                self._end_with_error(stream)

    def _finish(self, stream: Stream) -> None:
        """Every window was sent and acknowledged."""
        self._close_channels(stream)
        self._forget(stream, stream.reason)

    def _end_with_error(self, stream: Stream, error: TalkaheadError | None = None) -> None:
        """The other segments' outlets are closed first, so that the error is the last response."""
        error = error or stream.error or TalkaheadError("the stream was dropped")
        speaking = next((speech for speech in stream.speeches.values() if speech.channel.is_open), None)
        self._close_channels(stream, keep=speaking)
        if speaking is not None:
            speaking.channel.fail(error)
        is_cancelled = error.code is Code.CANCELLED
        self._forget(stream, StopReason.CANCELLED if is_cancelled else StopReason.ERROR)

    def _drop(self, stream: Stream) -> None:
        """Its client has left, or its outlet is broken: close everything quietly."""
        self._close_channels(stream)
        self._forget(stream, StopReason.CANCELLED)

    def _close_channels(self, stream: Stream, keep: Speech | None = None) -> None:
        for speech in stream.speeches.values():
            self._free(speech)
            if speech is not keep:
                speech.channel.close()

    def _free(self, speech: Speech) -> None:
        if speech.is_admitted:
            self._table.release(self._table.slot_of(speech))
            speech.is_admitted = False

    def _forget(self, stream: Stream, reason: StopReason) -> None:
        self._changed = True
        self._streams.pop(stream.id)
        self._num_in_flight -= len(stream.in_flight)
        stream.in_flight.clear()
        stream.speeches.clear()
        if not stream.is_complete:
            self._ended[stream.id] = stream
            while len(self._ended) > _REMEMBERED_STREAMS:
                self._ended.popitem(last=False)
        if stream.first_slot_at is not None:
            self._pace.see("slot_s", self._clock() - stream.first_slot_at)
        self._telemetry.ended(reason)

    # Time

    def _check_timers(self, now: float) -> None:
        self._timer_at = math.inf
        for stream in list(self._streams.values()):
            for at, act in self._alarms(stream):
                if at <= now:
                    act()
                    break
                self._timer_at = min(self._timer_at, at)

    def _alarms(self, stream: Stream) -> Iterator[tuple[float, Callable[[], None]]]:
        """What falls due when nothing else happens to a stream."""
        config, options = self._config, stream.options
        is_failing = stream.phase is Phase.FAILING
        leave = partial(self._end_with_error if is_failing else self._drop, stream)
        if stream.oldest is not None:
            yield max(stream.oldest.sent_at, stream.progress_at) + config.idle_timeout_s, leave
            if stream.overtaken >= config.vanished_after:
                yield stream.oldest.sent_at + config.vanished_grace_s, leave
        if stream.settled_at is not None:
            yield stream.settled_at, leave
        if not is_failing and options.deadline_ms is not None:
            passed = TalkaheadError(f"deadline_ms: {options.deadline_ms} ms have passed", Code.CANCELLED)
            yield stream.arrived_at + 1e-3 * options.deadline_ms, partial(self._fail_now, stream, passed)
        if is_failing and not stream.is_complete:
            yield stream.waiting_since + config.segment_timeout_s, leave
        if stream.phase is Phase.SPEAKING and stream.speech is None:
            lost = TalkaheadError(f"segment {stream.current} never reached the talker")
            yield stream.waiting_since + config.segment_timeout_s, partial(self._end_with_error, stream, lost)

    def _fail_now(self, stream: Stream, error: TalkaheadError) -> None:
        self._fail(stream, error)
        self._settle(stream, self._clock())

    def _report(self) -> None:
        queued = self._num_queued()
        speaking = sum(stream.phase is Phase.SPEAKING for stream in self._streams.values())
        gauges = (speaking - queued, queued, len(self._streams))
        if gauges != self._gauges:
            self._gauges = gauges
            self._telemetry.pool(*gauges)


def _cancelled() -> TalkaheadError:
    return TalkaheadError("the stream was cancelled", Code.CANCELLED)
