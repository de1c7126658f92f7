"""One utterance on its way: its segments, what of it is sent, and when its listener runs out of audio."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto

from talkahead.audio.windows import WindowPlan
from talkahead.config import RequestOptions
from talkahead.engine.emitter import Channel
from talkahead.engine.requests import SegmentRequest
from talkahead.errors import TalkaheadError
from talkahead.types import StopReason


class Phase(Enum):
    """Where a stream stands."""

    SPEAKING = auto()
    DRAINING = auto()
    """Every window is sent, some are not acknowledged; a failure can still be told."""
    FAILING = auto()
    """It has an error, which must be the last response: the rest is awaited and closed first."""


@dataclass(eq=False)
class Speech:
    """One segment of a stream. It owns a slot from its prefill to its last window."""

    stream: Stream
    request: SegmentRequest
    channel: Channel
    start: int = 0
    """Frames already sent in windows."""
    slot: int | None = None
    is_spoken: bool = False
    """Its last frame has been drawn, or its slot is full: only its pause and its windows are left."""

    @property
    def index(self) -> int:
        return self.request.header.segment

    @property
    def is_final(self) -> bool:
        return self.request.header.last == 1

    @property
    def pause_frames(self) -> int:
        """Silent frames behind its own."""
        return 0 if self.is_final else self.request.header.pause_frames


@dataclass(frozen=True)
class SentWindow:
    """A window in flight: its global sequence, when it left, and how long its audio is."""

    sequence: int
    sent_at: float
    seconds: float


@dataclass(frozen=True)
class Totals:
    """Target steps, tokens drafted, drafted tokens accepted, microseconds that the steps took."""

    target_steps: int = 0
    drafted: int = 0
    accepted: int = 0
    decode_us: int = 0

    def __add__(self, other: Totals) -> Totals:
        return Totals(
            self.target_steps + other.target_steps,
            self.drafted + other.drafted,
            self.accepted + other.accepted,
            self.decode_us + other.decode_us,
        )


@dataclass(eq=False)
class Stream:
    """State of one stream; only the loop's thread touches it. Times are of the loop's clock, in seconds."""

    id: int
    frontend: int
    """Address of the frontend that its segments come from."""
    generation: int
    request_id: str
    options: RequestOptions
    plan: WindowPlan
    arrived_at: float
    deadline: float
    """When it must be served: first-chunk limit of a newcomer, else when acknowledged audio runs out."""
    phase: Phase = Phase.SPEAKING

    speeches: dict[int, Speech] = field(default_factory=dict)
    """Segments that have arrived and are not done, by index."""
    current: int = 0
    """Index of the segment being spoken."""
    num_arrived: int = 0
    num_segments: int | None = None
    """Known once the last one has arrived."""
    waiting_since: float = 0.0
    """When a segment that has not arrived was first missed."""
    first_slot_at: float | None = None

    chunk: int = 0
    frames_sent: int = 0
    spoken_chars: int = 0
    totals: Totals = field(default_factory=Totals)
    """Of the segments that are done."""
    was_cut_short: bool = False
    """A segment ended because its slot was full."""
    reason: StopReason = StopReason.RUNNING

    is_blocked: bool = False
    """A window is ready, and too many are in flight."""
    has_played: bool = False
    """Its listener has audio: the deadline is about play-out from here on."""
    in_flight: OrderedDict[int, SentWindow] = field(default_factory=OrderedDict)
    """By chunk, oldest first."""
    progress_at: float = 0.0
    """When the vocoder was last seen at work on windows before our oldest."""
    overtaken: int = 0
    """Later windows of others acknowledged while our oldest was not."""

    error: TalkaheadError | None = None
    settled_at: float | None = None
    """When the error of a failing stream may go out."""

    @property
    def speech(self) -> Speech | None:
        """The segment to speak now, if it has arrived."""
        return self.speeches.get(self.current)

    @property
    def has_all_segments(self) -> bool:
        return self.num_segments is not None and self.num_arrived >= self.num_segments

    @property
    def is_speaking(self) -> bool:
        return self.phase is Phase.SPEAKING

    @property
    def is_newcomer(self) -> bool:
        """It still owes its first window."""
        return self.chunk == 0

    @property
    def oldest(self) -> SentWindow | None:
        return next(iter(self.in_flight.values()), None)

    def others(self, speech: Speech | None) -> Iterator[Speech]:
        """The segments at hand but this one."""
        return (one for one in list(self.speeches.values()) if one is not speech)

    def count_arrival(self, request: SegmentRequest) -> None:
        self.num_arrived += 1
        if request.header.last:
            self.num_segments = request.header.segment + 1

    def hear(self, seconds: float, now: float) -> None:
        """`seconds` more audio reached the listener, who still has some or had run dry."""
        self.deadline = (max(self.deadline, now) if self.has_played else now) + seconds
        self.has_played = True
