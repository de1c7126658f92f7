"""One utterance on its way: its segments, what of it is sent, and when its listener runs out of audio."""

from __future__ import annotations

from collections import OrderedDict
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
    is_admitted: bool = False

    @property
    def index(self) -> int:
        return self.request.header.segment

    @property
    def is_final(self) -> bool:
        return self.request.header.last == 1


@dataclass(frozen=True)
class SentWindow:
    """A window in flight: its global sequence, when it left, and how long its audio is."""

    sequence: int
    sent_at: float
    seconds: float


@dataclass(eq=False)
class Stream:
    """State of one stream; only the loop touches it. Times are of the loop's clock, in seconds."""

    id: int
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
    num_arrived: int = 0
    num_segments: int | None = None
    """Known once the last one has arrived."""
    current: int = 0
    """Index of the segment being spoken."""
    chunk: int = 0
    frames_sent: int = 0
    has_played: bool = False
    """Its listener has audio: the deadline is about play-out from here on."""
    totals: tuple[int, int, int] = (0, 0, 0)
    """Target steps, drafted and accepted tokens of the segments that are done."""
    spoken_chars: int = 0
    hit_length: bool = False
    reason: StopReason = StopReason.RUNNING
    is_blocked: bool = False
    """A window is ready and too many are in flight."""
    in_flight: OrderedDict[int, SentWindow] = field(default_factory=OrderedDict)
    """By chunk, oldest first."""
    progress_at: float = 0.0
    """When the vocoder was last seen to work on windows before our oldest."""
    overtaken: int = 0
    """Later windows of others acknowledged while our oldest was not."""
    waiting_since: float = 0.0
    """When the segment that it needs next was first missed."""
    first_slot_at: float | None = None
    error: TalkaheadError | None = None
    settled_at: float | None = None
    """When a failing stream had nothing more in flight."""

    @property
    def speech(self) -> Speech | None:
        """The segment to speak now, if it has arrived."""
        return self.speeches.get(self.current)

    @property
    def is_complete(self) -> bool:
        """Every segment has arrived."""
        return self.num_segments is not None and self.num_arrived >= self.num_segments

    @property
    def is_newcomer(self) -> bool:
        return self.chunk == 0

    @property
    def oldest(self) -> SentWindow | None:
        return next(iter(self.in_flight.values()), None)

    def played_until(self, seconds: float, now: float) -> None:
        """`seconds` more audio reached the listener, who had run dry or still has some."""
        self.deadline = (max(self.deadline, now) if self.has_played else now) + seconds
        self.has_played = True
