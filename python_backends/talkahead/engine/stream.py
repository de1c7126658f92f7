"""One utterance on its way: its segments, what of it is sent, and when its listener runs out of audio."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from talkahead.engine.emitter import Channel
from talkahead.engine.in_flight import InFlight, SentWindow
from talkahead.engine.requests import SegmentRequest
from talkahead.engine.schedule import Contender
from talkahead.engine.windows import Cut, WindowPlan
from talkahead.errors import TalkaheadError, answer_to_check
from talkahead.types import SegmentHeader, StopReason

_NOTHING = np.zeros(0, np.int64)
_SHORT_WINDOWS = 2


@dataclass(eq=False)
class SegmentState:
    """One segment of a stream. It owns a slot from its prefill to its last window."""

    stream: Stream
    request: SegmentRequest
    channel: Channel
    start: int = 0
    """Frames already sent in windows, and those that are not to be heard."""
    slot: int | None = None
    """Written by the slot table."""
    spoken_frames: int | None = None
    """Without its pause; known once its last frame has been drawn, or its slot is full."""

    @property
    def index(self) -> int:
        return self.request.header.segment

    @property
    def is_final(self) -> bool:
        return self.request.header.last == 1

    @property
    def recalled(self) -> npt.NDArray[np.int64]:
        """Tokens [S] of the stream's opening that stand after the prompt."""
        most, opening = self.request.header.recall, self.stream.opening
        return _NOTHING if opening is None or not most else opening[max(len(opening) - most, 0) :]

    @property
    def num_prompt(self) -> int:
        """Rows that it goes on from."""
        own = len(self.request.prompt)
        return own + len(self.recalled) if self.request.header.recall else own

    @property
    def can_begin(self) -> bool:
        """What it goes on from has been said."""
        return not self.request.header.recall or self.stream.opening is not None

    @property
    def pause_frames(self) -> int:
        """Silent frames after its own."""
        return 0 if self.is_final else self.request.header.pause_frames

    @property
    def is_spoken(self) -> bool:
        """Only its pause and its windows are left."""
        return self.spoken_frames is not None

    def mark_spoken(self, frames: int, tokens: npt.NDArray[np.int32]) -> None:
        """So many frames, drawn as these tokens [S]."""
        self.spoken_frames = frames
        self.stream.hear(self, tokens)

    def advance(self, cut: Cut) -> None:
        """The window has left."""
        self.start = cut.stop


@dataclass(frozen=True)
class Totals:
    """Of segments: the end of their text, whether one ended because its slot was full, and what they took."""

    char_end: int = 0
    was_cut_short: bool = False
    target_steps: int = 0
    drafted: int = 0
    accepted: int = 0
    decode_us: int = 0
    """Microseconds of the target steps."""

    def __add__(self, other: Totals) -> Totals:
        """The other's segments come later."""
        return Totals(
            other.char_end,
            self.was_cut_short or other.was_cut_short,
            self.target_steps + other.target_steps,
            self.drafted + other.drafted,
            self.accepted + other.accepted,
            self.decode_us + other.decode_us,
        )


@dataclass
class Arrivals:
    """How many of a stream's segments have come, and of how many, which the last one tells."""

    count: int = 0
    expected: int | None = None

    @property
    def are_complete(self) -> bool:
        return self.expected is not None and self.count >= self.expected

    def add(self, header: SegmentHeader) -> None:
        self.count += 1
        if header.last:
            self.expected = header.segment + 1


@dataclass(frozen=True)
class Acknowledged:
    """A window that has become audio, or failed to, and how its listener fared until then.

    Args:
        wait_s: since the chunk before it was heard; of the first one, since the request came.
        slack_s: audio that its listener still had, 0 of one who had run dry; None of the first chunk.
        queue_s: what the stream had waited for its first slot.
    """

    window: SentWindow
    wait_s: float
    slack_s: float | None
    queue_s: float


@dataclass(frozen=True)
class Failure:
    """Why a stream fails, since when, and when its error may go out."""

    error: TalkaheadError
    since: float
    due_at: float = math.inf


class Stream:
    """What may happen to a stream is its methods: others read its fields, and only the loop's thread does.

    It speaks; it drains, when every window is sent and some are not acknowledged; it ends. On the way it may
    fail: then its error must be the last response, and the rest is awaited and closed first. Times are of the
    loop's clock, in seconds.
    """

    def __init__(
        self, request: SegmentRequest, generation: int, plan: WindowPlan, *, deadline: float, now: float
    ) -> None:
        self.id: Final = request.header.stream
        self.frontend: Final = request.header.frontend
        """Address of the frontend that its segments come from."""
        self.voice: Final = request.header.voice
        self.generation: Final = generation
        self.request_id: Final = request.request_id
        self.options: Final = request.options
        self.plan: Final = plan
        self.arrived_at: Final = now
        self.arrivals: Final = Arrivals()
        self.in_flight: Final = InFlight()
        self.chunk = 0
        """Index of the next window."""
        self.frames_sent = 0
        self.totals = Totals()
        """Of the segments that are done."""
        self.current = 0
        """Index of the segment being spoken."""
        self.opening: npt.NDArray[np.int64] | None = None
        """Tokens [S] of the first segment, which later ones may go on from; None until it is spoken."""
        self.before: npt.NDArray[np.int32] = np.zeros(0, np.int32)
        """Tokens [S] that were heard last before the segment being spoken, its codec's context at most."""
        self.ending: StopReason | Failure | None = None
        """None while it speaks, the reason of its last window while it drains."""
        self.deadline = deadline
        """When it must be served: first-chunk limit of a newcomer, else when acknowledged audio runs out."""
        self.slot_at: float | None = None
        """When it first got a slot."""
        self.first_chunk_s: float | None = None
        """From the request to its first audio; None: none was heard."""
        self.longest_gap_s: float | None = None
        self.least_slack_s: float | None = None
        """Of chunks after the first: what passed since the one before, and what was left of that."""
        self.waited_s = 0.0
        """What its listener has waited in all, once there was something to hear, for what came next."""
        self.is_blocked = False
        """A window is ready, and too many are in flight."""
        self._current_since = now
        self.asked_at: Final = 1e-6 * request.header.asked_us or now
        self._heard_at: float | None = None
        """When its listener got the latest chunk: from the first one on, the deadline is about play-out."""
        self._segments: dict[int, SegmentState] = {}
        """Segments that have arrived and are not done, by index."""

    @property
    def is_speaking(self) -> bool:
        return self.ending is None

    @property
    def is_draining(self) -> bool:
        return isinstance(self.ending, StopReason)

    @property
    def failure(self) -> Failure | None:
        return self.ending if isinstance(self.ending, Failure) else None

    @property
    def is_newcomer(self) -> bool:
        """It still owes its first window."""
        return self.chunk == 0

    @property
    def is_beginning(self) -> bool:
        """It owes one of the short windows that nobody plays for long."""
        return self.chunk < _SHORT_WINDOWS

    @property
    def segment(self) -> SegmentState | None:
        """The segment to speak now, if it has arrived."""
        return self._segments.get(self.current)

    @property
    def next_segment(self) -> SegmentState | None:
        """The one after it, if it has arrived."""
        return self._segments.get(self.current + 1)

    @property
    def segments(self) -> tuple[SegmentState, ...]:
        """The segments at hand."""
        return tuple(self._segments.values())

    @property
    def queue_s(self) -> float | None:
        """What it waited for its first slot; None: it has none yet."""
        return None if self.slot_at is None else self.slot_at - self.arrived_at

    @property
    def expires_at(self) -> float:
        """When the time that its client gives it is over."""
        limit_ms = self.options.deadline_ms
        return math.inf if limit_ms is None else self.arrived_at + 1e-3 * limit_ms

    @property
    def missing_since(self) -> float:
        """Since when a segment that has not arrived is awaited."""
        if isinstance(self.ending, Failure):
            return math.inf if self.arrivals.are_complete else self.ending.since
        return self._current_since if self.is_speaking and self.segment is None else math.inf

    @property
    def _has_played(self) -> bool:
        return self._heard_at is not None

    def contends(self, slot: int, lacks_s: float = 0.0) -> Contender:
        """In a slot; `lacks_s`: seconds of speech that its next window waits for."""
        return Contender(slot, self.deadline, self.is_newcomer, self.is_beginning, lacks_s)

    def waited_at(self, now: float) -> float:
        """`waited_s`, and the wait that goes on."""
        return self.waited_s + (max(now - self.deadline, 0.0) if self._has_played else 0.0)

    def slack_at(self, now: float) -> float | None:
        """Seconds of audio that its listener still has, 0 once dry; None before the first chunk."""
        return max(self.deadline - now, 0.0) if self._has_played else None

    def arrive(self, request: SegmentRequest, channel: Channel) -> bool:
        """Take a segment in; False where it has come before."""
        index = request.header.segment
        if index in self._segments or index < self.current:
            return False
        self.arrivals.add(request.header)
        self._segments[index] = SegmentState(self, request, channel, start=self.plan.unheard)
        return True

    def begin(self, now: float) -> bool:
        """A segment of it has a slot; whether that is the first."""
        is_first = self.slot_at is None
        self.slot_at = now if is_first else self.slot_at
        return is_first

    def block(self) -> None:
        """A window is ready and may not leave, until one does."""
        self.is_blocked = True

    def send(self, segment: SegmentState, cut: Cut, window: SentWindow) -> None:
        """The next window leaves, of the segment being spoken, and awaits its acknowledgement."""
        assert self.is_speaking and segment is self.segment
        self.in_flight.add(self.chunk, window)
        self.chunk += 1
        self.frames_sent += cut.new
        self.is_blocked = False
        segment.advance(cut)

    def acknowledge(self, chunk: int, ok: bool, now: float) -> Acknowledged | None:
        """A window has become audio, or failed to; None of one that was not in flight."""
        window = self.in_flight.acknowledge(chunk, now)
        if window is None:
            return None
        since = self.asked_at if self._heard_at is None else self._heard_at
        done = Acknowledged(window, now - since, self.slack_at(now), self.queue_s or 0.0)
        if ok:
            if done.slack_s is None:
                self.first_chunk_s = done.wait_s
            else:
                self.longest_gap_s = max(done.wait_s, self.longest_gap_s or 0.0)
                least_s = math.inf if self.least_slack_s is None else self.least_slack_s
                self.least_slack_s = min(done.slack_s, least_s)
            # More for a listener who still has some, or has run dry.
            self.waited_s = self.waited_at(now)
            self.deadline = (max(self.deadline, now) if self._has_played else now) + window.seconds
            self._heard_at = now
        return done

    def hear(self, segment: SegmentState, tokens: npt.NDArray[np.int32]) -> None:
        """A segment is spoken, without its pause, as these tokens [S]."""
        if segment.index == 0:
            self.opening = tokens.astype(np.int64)

    def finish_segment(self, totals: Totals, before: npt.NDArray[np.int32], now: float) -> None:
        """The last window of the segment being spoken has left: on to the next one, before which these tokens
        were heard."""
        self._segments.pop(self.current).channel.close()
        self.before = before
        self.totals += totals
        self.current += 1
        self._current_since = now

    def close_others(self) -> list[SegmentState]:
        """Segments that will not be spoken, as the stream ends with this one: they are closed."""
        others = [segment for segment in self.segments if segment is not self.segment]
        for segment in others:
            segment.channel.close()
            del self._segments[segment.index]
        return others

    def drain(self, reason: StopReason) -> None:
        """Its last window has left."""
        assert self.is_speaking and reason is not StopReason.RUNNING
        self.ending = reason

    def fail(self, error: TalkaheadError, now: float) -> bool:
        """Speak no more; False where it fails already, of what came first."""
        if self.failure is not None:
            return False
        self.ending = Failure(error, now)
        self.is_blocked = False
        return True

    def settle(self, settle_s: float, now: float) -> bool:
        """Whether it may end; an error waits `settle_s` after the last audio."""
        if self.is_speaking or self.in_flight:
            return False
        if not isinstance(self.ending, Failure):
            return True
        if self.arrivals.are_complete and self.ending.due_at == math.inf:
            self.ending = replace(self.ending, due_at=now + (settle_s if self._has_played else 0.0))
        return self.ending.due_at <= now

    def end(self, error: TalkaheadError | None) -> None:
        """Close the outlets of its segments; an error goes to one of them, after the others."""
        channels = [segment.channel for segment in self.segments if segment.channel.is_open]
        for channel in channels if error is None else channels[1:]:
            channel.close()
        if error is not None and channels:
            channels[0].fail(answer_to_check(error) if self.options.health_check else error)
        self._segments.clear()
