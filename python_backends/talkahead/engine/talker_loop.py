"""The talker's loop: admit, draft, score, verify, commit, emit, for all streams at once.

Everything here runs on one thread and takes the time from its clock: a test can drive it turn by turn.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import torch

from talkahead.backbone.backbone import Backbone
from talkahead.config import LEAST_URGENT
from talkahead.engine.decode_step import Admission, DecodeStep
from talkahead.engine.emitter import Channel
from talkahead.engine.engine_config import EngineConfig
from talkahead.engine.engine_telemetry import EngineTelemetry
from talkahead.engine.native_steps import Bell, Stop
from talkahead.engine.pace import Pace
from talkahead.engine.requests import SegmentRequest
from talkahead.engine.running_mean import RunningRatio
from talkahead.engine.schedule import Room, choose, room
from talkahead.engine.slot_table import SlotTable
from talkahead.engine.stream import SegmentState, Stream
from talkahead.engine.streams import Streams, cancelled
from talkahead.engine.waiting_line import WaitingLine
from talkahead.engine.window_cutter import WindowCutter
from talkahead.errors import BadRequest, Code, TalkaheadError
from talkahead.transport.messages import LoadReport, PassBegun, StreamProgress, Waits, WindowDone
from talkahead.types import Ending, StreamAccount, WindowHeader

_AT_RISK_S = 0.1
"""Of audio that a listener still has: with less, the slightest hitch is heard."""
_LONGEST_STRIDE_S = 0.01
"""Of steps that are taken one after the other: what the vocoder says waits as long."""
_SMALLEST_PART = 96
"""Rows of a prompt: fewer at once take as long, for they share a reading of the weights."""
_PROMPTS = 16
"""Whose seconds tell what a row takes."""
_SHARE_THAT_BEGINS = 3
"""Of a step, where there are more slots than that: the first of a crowd are heard sooner than if all shared
the steps, and whose beginning is being played does not run dry. At 16 and 20 requests a second of the 22 that
a machine spoke, the worst of 200 listeners still had 16 to 33 ms when their second window came, and -38 to 2
when the whole step could begin; with less first chunks came later, 95 of 100 within 136 ms instead of 108.

While some begin who would be late, a step decodes no more than that. On an EPYC with AVX2 alone, at 4 and 5
requests a second of the 6 that it spoke, with whoever begins preferred, 6 and 30 of 180 and 225 listeners ran
dry, and 28 and 105 where whole steps were decoded; with a quarter 8 and 43 did."""


@dataclass
class _Reading:
    """A prompt that is read in parts.

    Args:
        due_at: when the next part is to be read.
    """

    segment: SegmentState
    admission: Admission
    began_at: float
    due_at: float


class TalkerLoop:
    """Streams and slots. `turn` does one iteration; the other public methods are what may happen in between.

    Args:
        clock: seconds that never go back.
        bell: rung when there is news that does not wait.
        address: of the acknowledgement socket; 0 means that windows count as acknowledged when they are sent.
        report_progress: tells the frontend at an address how far a stream is; must return at once.
        tell_waits: lets newcomers know what they would find; must return at once.
        log: told why a stream failed, where that is no fault of its client's; must return at once.
    """

    def __init__(
        self,
        backbone: Backbone,
        step: DecodeStep,
        config: EngineConfig,
        *,
        clock: Callable[[], float],
        telemetry: EngineTelemetry,
        bell: Bell,
        address: int,
        report_progress: Callable[[int, StreamProgress], None],
        tell_waits: Callable[[Waits], None],
        log: Callable[[str], None],
    ) -> None:
        self._backbone = backbone
        self._step = step
        self._config = config
        self._clock = clock
        self._telemetry = telemetry
        self._bell = bell
        positions = backbone.max_positions
        self._table = SlotTable(
            step,
            backbone.num_slots,
            positions + config.max_pause_frames * config.speech.steps_per_frame,
            eos=backbone.eos,
            silence=config.tokens.tokens(np.array([config.speech.silence], np.int32)),
            telemetry=telemetry,
        )
        self._streams = Streams(
            config,
            release=self._table.release,
            on_end=self._on_end,
            report_progress=report_progress,
            log=log,
        )
        self._cutter = WindowCutter(
            self._table, self._streams, config, telemetry, max_positions=positions, address=address
        )
        self._rows = min(config.max_step_rows or backbone.num_slots, backbone.num_slots)
        """Streams that a step decodes at most."""
        takes_turns = self._rows < backbone.num_slots and math.isfinite(config.max_lead_s)
        self._max_beginning = -(-self._rows // _SHARE_THAT_BEGINS) if takes_turns else self._rows
        self._most_sparing = self._rows if takes_turns else self._rows // 2
        """Streams that may be open where some stand aside: where more are, full steps make more speech."""
        self._tokens_per_s = config.speech.frames_per_s * config.speech.steps_per_frame
        self._pace = Pace(
            self._tokens_per_s,
            least=config.min_pace,
            late_after_s=config.late_after_s,
            rows=self._rows,
        )
        self._line = WaitingLine(self._rows, config)
        self._tell_waits = tell_waits
        self._has_changed = True
        self._running: list[int] = []
        self._reading: _Reading | None = None
        self._prompt_s = RunningRatio(_PROMPTS)
        """By rows."""
        self._review_at = math.inf
        self._load = self._measured_load(0, self._table.num_free, clock())

    # What may happen between turns

    def submit(self, request: SegmentRequest, channel: Channel) -> None:
        """A segment has arrived: of a new stream, of one that is open, or of one that has ended already."""
        self._has_changed = True
        now = self._clock()
        ahead = self._turns_ahead()
        stream = self._streams.arrive(request, channel, now)
        if stream is None:
            return
        problem = self._unfit(request)
        if stream.arrivals.count == 1 and problem is None:
            problem = self._refusal(stream, ahead, now)
        if problem is None:
            self._streams.settle(stream, now)
        else:
            self._streams.fail(stream, problem, now)

    def acknowledge(self, done: WindowDone) -> None:
        """The vocoder is done with a window, which may let others leave."""
        self._has_changed = True
        heard = self._streams.acknowledge(done, self._clock())
        if heard is not None and done.ok:
            self._pace.decoded(done.seconds, heard.window.seconds)
            is_first = heard.slack_s is None
            if is_first:
                self._line.heard(heard.wait_s - heard.queue_s)
            self._telemetry.heard(heard.window.seconds, heard.wait_s if is_first else None)

    def expect(self, begun: PassBegun) -> None:
        """The vocoder is at work, which postpones what falls due: seen to when that was to be."""
        self._streams.expect(begun, self._clock())

    def cancel(self, stream: int | None, request_id: str | None) -> int:
        """End a stream, or all of a request id; returns how many."""
        self._has_changed = True
        return self._streams.cancel(stream, request_id, self._clock())

    def lose(self, window: WindowHeader, reason: str) -> None:
        """A window could not be sent."""
        self._has_changed = True
        self._streams.lose(window, reason, self._clock())

    def look_at_clock(self) -> None:
        """Something may have fallen due."""
        self._has_changed = True

    def fail_all(self, error: TalkaheadError) -> None:
        """End every stream now, without waiting for anything."""
        self._streams.fail_all(error)
        self._report()

    @property
    def load(self) -> LoadReport:
        """As of the last change; may be read from any thread."""
        return self._load

    @property
    def num_free_slots(self) -> int:
        return self._table.num_free

    @property
    def num_windows_in_flight(self) -> int:
        return self._streams.num_in_flight

    # The iteration

    def turn(self) -> float:
        """One iteration. Returns 0 when there is more to do, else the seconds until something falls due."""
        now = self._clock()
        if self._has_changed or now >= self._review_at:
            self._has_changed = False
            self._review_at = min(self._streams.check(now), self._cutter.unblock(now))
            self._admit(now)
            self._schedule(now)
            self._report()
        if self._running:
            self._run_step(self._running)
        elif not self._has_changed:
            return max(self._review_at - self._clock(), 0.0)
        return 0.0

    def _run_step(self, slots: list[int]) -> None:
        before = self._clock()
        stop = Stop(self._table.tokens_left(slots), self._bell, _LONGEST_STRIDE_S)
        drawn = self._step.run(slots, stop)
        self._table.charge(drawn.slots, self._clock() - before)
        due = self._table.add(drawn)
        now = self._clock()
        rows = len(drawn.slots)
        self._pace.stepped(now - before, int(drawn.counts.sum()) / rows, rows)
        self._telemetry.stepped(len(drawn.by_step), now - before, rows, 1 + int(drawn.num_drafted.max()))
        for segment in due:
            self._has_changed = True
            self._cutter.advance(segment.stream, now)

    def _schedule(self, now: float) -> None:
        read = None if self._reading is None else self._reading.segment.slot
        holders = [
            (slot, stream) for slot, stream in self._holders() if not stream.is_blocked and slot != read
        ]
        lacks_s = self._table.tokens_left([slot for slot, _ in holders]) / self._tokens_per_s
        contenders = [
            stream.contends(slot, lacks)
            for (slot, stream), lacks in zip(holders, lacks_s.tolist(), strict=True)
        ]
        choice = choose(
            contenders,
            now,
            max_rows=self._rows,
            max_beginning=self._max_beginning,
            max_lead_s=self._config.max_lead_s,
            pace=self._pace.of(len(contenders)),
            may_park=self._num_taken <= self._most_sparing,
        )
        self._review_at = min(self._review_at, choice.review_at)
        self._running = sorted(choice.slots)

    def _holders(self) -> list[tuple[int, Stream]]:
        """The streams whose segment to speak now has a slot, and that."""
        return [
            (segment.slot, segment.stream) for segment in self._streams.speaking() if segment.slot is not None
        ]

    def _waiting(self) -> list[SegmentState]:
        """The segments to speak now that have no slot."""
        return [segment for segment in self._streams.speaking() if segment.slot is None]

    # Admission

    def _room(self, now: float) -> Room:
        return room(
            [stream.contends(slot) for slot, stream in self._holders()],
            now,
            max_rows=self._rows,
            max_beginning=self._max_beginning,
            max_lead_s=self._config.max_lead_s,
        )

    def _num_free(self, now: float) -> int:
        """Slots that are to be had. Who waits for others to have begun has one as soon as these have."""
        return min(self._table.num_free, self._room(now).rows)

    @property
    def _num_taken(self) -> int:
        return self._backbone.num_slots - self._table.num_free

    def _turns_ahead(self) -> list[float]:
        """Of those who wait for a slot, ascending; who plays already has the first turns."""
        return sorted(
            self._turn_of(segment.stream) if segment.stream.is_newcomer else -math.inf
            for segment in self._waiting()
        )

    def _has_impatient_waiters(self) -> bool:
        streams = (segment.stream for segment in self._waiting())
        return any(one.is_newcomer and one.options.urgency != LEAST_URGENT for one in streams)

    def _turn_of(self, stream: Stream) -> float:
        """Of a newcomer."""
        return self._line.turn_at(stream.arrived_at, stream.options.urgency)

    def _unfit(self, request: SegmentRequest) -> TalkaheadError | None:
        """Why it cannot be spoken. What is not finite would stay in the slot and spoil its next user."""
        prompt, width = request.prompt, self._backbone.hidden_size
        longest = self._backbone.max_positions - 1
        if prompt.ndim != 2 or prompt.shape[1] != width or not 1 <= len(prompt) <= longest:
            return BadRequest("PROMPT", prompt.shape, f"[P, {width}] with P from 1 to {longest}")
        pause, longest_pause = request.header.pause_frames, self._config.max_pause_frames
        if not 0 <= pause <= longest_pause:
            return BadRequest("SEGMENT: pause_frames", pause, f"a whole number from 0 to {longest_pause}")
        if not np.isfinite(prompt).all():
            return TalkaheadError("PROMPT: the encoder sent numbers that are not finite")
        recall, most = request.header.recall, longest - len(prompt)
        most = most if request.header.segment and self._config.rows is not None else 0
        if not 0 <= recall <= most:
            return BadRequest("SEGMENT: recall", recall, f"a whole number from 0 to {most}")
        history, tokens = request.history, self._backbone.vocab_size
        if history.ndim != 1 or len(history) > len(prompt) or not ((history >= 0) & (history < tokens)).all():
            return BadRequest("HISTORY", history, f"at most {len(prompt)} tokens from 0 to {tokens - 1}")
        return None

    def _refusal(self, newcomer: Stream, ahead: list[float], now: float) -> TalkaheadError | None:
        """Why a new stream is not let in.

        Args:
            ahead: turns of those who waited for a slot before it came. Who plays already and waits for the
                next segment's takes no newcomer's place.
        """
        if self._streams.was_cancelled(newcomer.request_id, now):
            return cancelled()
        num_free, num_newcomers = self._num_free(now), sum(turn > -math.inf for turn in ahead)
        if num_newcomers >= max(self._config.max_pending, num_free):
            wait_ms = 1e3 * self._line.first_chunk_s(len(ahead), num_free)
            return TalkaheadError(
                f"{num_newcomers} streams wait for a slot already; try again in about {wait_ms:.0f} ms",
                Code.RESOURCE_EXHAUSTED,
            )
        if wait := self._line.outlook(ahead, num_free, now, newcomer.options.urgency).long_wait:
            return wait.error
        waits = [one.waited_at(now) for one in self._streams if one is not newcomer and one.failure is None]
        together = min(len(waits) + 1, self._backbone.num_slots)
        objection = self._pace.objection(together, max(waits, default=0.0))
        return None if objection is None else TalkaheadError(objection, Code.RESOURCE_EXHAUSTED)

    def _admit(self, now: float) -> None:
        """Slots by deadline, one prefill for all who got one; when nobody waits, one next segment ahead.
        Parts of a long prompt come first, when they are due."""
        if (reading := self._reading) is not None and reading.segment.slot is None:
            reading = self._reading = None  # its stream has ended
        if reading is not None:
            if now >= reading.due_at or not self._running:
                self._read_on(reading, now)
                return
            self._review_at = min(self._review_at, reading.due_at)
        waiting = self._waiting()
        if waiting:
            # A listener who runs dry is worse off than one who waits a little longer for the beginning.
            waiting.sort(key=self._order)
            waiting = self._within_room(waiting, now)
            self._reclaim(len(waiting) - self._table.num_free)
            chosen = self._within_budget(waiting[: self._table.num_free])
        else:
            chosen = self._within_budget(self._next_segments(with_slot=False)[: min(self._table.num_free, 1)])
        if chosen:
            self._let_in(chosen, now)

    def _order(self, segment: SegmentState) -> tuple[bool, float]:
        stream = segment.stream
        return stream.is_newcomer, self._turn_of(stream) if stream.is_newcomer else stream.deadline

    def _within_room(self, segments: list[SegmentState], now: float) -> list[SegmentState]:
        left = self._room(now)
        playing = [segment for segment in segments if not segment.stream.is_newcomer]
        newcomers = [segment for segment in segments if segment.stream.is_newcomer]
        return [*playing, *newcomers[: left.newcomers]][: left.rows]

    def _within_budget(self, segments: list[SegmentState]) -> list[SegmentState]:
        """The first few whose prompts may be read before the next step; at least one, unless parts of another
        are."""
        rows = accumulate(segment.num_prompt for segment in segments)
        most = self._prompt_rows()
        fitting = sum(total <= most for total in rows)
        return segments[: fitting if self._reading is not None else max(fitting, 1)]

    def _prompt_rows(self) -> int:
        """That may be read before the next step."""
        most, row_s = self._config.max_prefill_rows, self._prompt_s.value
        if not row_s:
            return most
        return int(min(max(self._config.max_prefill_s / row_s, _SMALLEST_PART), most))

    def _next_segments(self, with_slot: bool) -> list[SegmentState]:
        """Segments after the ones being spoken, of streams that have begun; the first to run dry in front."""
        following = (
            stream.next_segment for stream in self._streams if stream.is_speaking and not stream.is_newcomer
        )
        chosen = [
            one
            for one in following
            if one is not None and one.can_begin and (one.slot is not None) == with_slot
        ]
        return sorted(chosen, key=lambda segment: segment.stream.deadline)

    def _reclaim(self, num_missing: int) -> None:
        """Take back slots that hold next segments: who waits now goes first, they are prefilled again."""
        for segment in reversed(self._next_segments(with_slot=True)):
            if num_missing <= 0:
                return
            self._table.release(segment)
            num_missing -= 1

    def _let_in(self, segments: list[SegmentState], now: float) -> None:
        """Slots are theirs; their prompts are read, or the first part of one that is long."""
        self._has_changed = True
        admissions = [self._admission(self._table.claim(segment), segment) for segment in segments]
        for stream in (segment.stream for segment in segments):
            if stream.begin(now):
                self._telemetry.stage("queue", now - stream.arrived_at)
        is_long = segments[0].num_prompt > self._prompt_rows()
        if is_long and self._running and self._step.reads_in_parts:
            self._reading = _Reading(segments[0], admissions[0], now, now)
            self._read_on(self._reading, now)
        else:
            self._begin(segments, admissions, now, now)

    def _read_on(self, reading: _Reading, now: float) -> None:
        """The next part; then whoever would be late otherwise decodes for as long as it took."""
        self._has_changed = True
        rows = self._prompt_rows()
        if reading.segment.num_prompt - reading.admission.num_read <= rows:
            self._reading = None
            self._begin([reading.segment], [reading.admission], reading.began_at, now)
            return
        reading.admission = self._step.read(reading.admission, rows)
        done = self._clock()
        took = done - now
        self._prompt_s.add(took, rows)
        others = (stream for slot, stream in self._holders() if slot != reading.segment.slot)
        is_urgent = any(stream.is_newcomer or stream.deadline - done < 2 * took for stream in others)
        reading.due_at = done + took if is_urgent else done

    def _begin(
        self, segments: list[SegmentState], admissions: list[Admission], began_at: float, now: float
    ) -> None:
        """What is left of their prompts is read, and each has its first token."""
        tokens = self._step.admit(admissions)
        done = self._clock()
        self._prompt_s.add(done - now, sum(len(one.prompt) - one.num_read for one in admissions))
        self._telemetry.stage("prefill", done - began_at)
        for admission, segment, token in zip(admissions, segments, tokens, strict=True):
            self._table.start(admission.slot, token)
            if segment is segment.stream.segment:
                self._cutter.advance(segment.stream, done)

    def _admission(self, slot: int, segment: SegmentState) -> Admission:
        """The prompt, and after it what the stream's opening said, as if that were a reference."""
        request, recalled = segment.request, segment.recalled
        prompt = torch.from_numpy(np.array(request.prompt, dtype=np.float32))
        history = torch.from_numpy(np.concatenate([request.history, recalled]))
        if len(recalled):
            assert self._config.rows is not None
            prompt = torch.cat([prompt, self._config.rows(recalled)])
        header = request.header
        return Admission(slot, prompt, request.options, header.seed, header.segment, request.method, history)

    # Account

    def _on_end(self, stream: Stream, ending: Ending) -> None:
        self._has_changed = True
        now = self._clock()
        if stream.slot_at is not None:
            among, is_awaited = self._num_taken + 1, bool(self._waiting())
            self._line.left(now, now - stream.slot_at, among=among, is_awaited=is_awaited)
        account = StreamAccount(
            stream=stream.id,
            request_id=stream.request_id,
            ending=ending,
            seconds=now - stream.asked_at,
            queue_s=stream.queue_s,
            first_chunk_s=stream.first_chunk_s,
            longest_gap_s=stream.longest_gap_s,
            least_slack_s=stream.least_slack_s,
            frames=stream.frames_sent,
        )
        self._telemetry.ended(account)
        if self._pace.is_late(stream.waited_s):
            self._telemetry.late(account.name, stream.waited_s)

    def _report(self) -> None:
        now, ahead = self._clock(), self._turns_ahead()
        num_free = self._num_free(now)
        self._line.look(now, has_waiters=self._has_impatient_waiters())
        self._review_at = min(self._review_at, self._line.review_at)
        outlooks = self._line.outlooks(ahead, num_free, now)
        self._tell_waits(Waits(self._streams.num_arrived, outlooks))
        self._load = self._measured_load(len(ahead), num_free, now)
        self._telemetry.pool(self._load)

    def _measured_load(self, num_queued: int, num_free: int, now: float) -> LoadReport:
        slacks = (stream.slack_at(now) for stream in self._streams)
        return LoadReport(
            active=sum(stream.is_speaking for stream in self._streams) - num_queued,
            queued=num_queued,
            open_streams=self._streams.num_open,
            slots=self._backbone.num_slots,
            predicted_first_chunk_ms=1e3 * self._line.first_chunk_s(num_queued, num_free),
            windows_in_flight=self._streams.num_in_flight,
            at_risk=sum(slack is not None and slack < _AT_RISK_S for slack in slacks),
            slots_taken=self._num_taken,
        )
