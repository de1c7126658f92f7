"""What crosses a boundary: headers carried as INT64 tensors, stop reasons, a request's options.

Field order here *is* the wire order of the tensors SEGMENT, WINDOW and STATS;
`clients/talkahead_client/protocol.py` names STATS once more for clients, a contract test keeps the two equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from enum import IntEnum, StrEnum
from typing import Self

import numpy as np
import numpy.typing as npt


class StopReason(IntEnum):
    """Why a stream (or one of its segments) ended. RUNNING marks a chunk that is not the last."""

    RUNNING = 0
    END_OF_SPEECH = 1
    LENGTH = 2
    MAX_SECONDS = 3
    CANCELLED = 4
    ERROR = 5


class Ending(StrEnum):
    """How a stream ended, for those who run the server: a cancel says whose it was."""

    END_OF_SPEECH = "end_of_speech"
    LENGTH = "length"
    MAX_SECONDS = "max_seconds"
    CANCELLED = "cancelled"
    """Its client asked for it."""
    DEADLINE = "deadline"
    """Its client's deadline_ms had passed."""
    VANISHED = "vanished"
    """Its client had left without a word."""
    REFUSED = "refused"
    """There was no room for it."""
    ERROR = "error"


class StepWay(StrEnum):
    """How a step of the talker is asked of a device that records graphs."""

    STEP = "step"
    """As one graph."""
    FORWARD = "forward"
    """Its forward as a graph, drafts and draws one operation after another."""
    EAGER = "eager"
    """One operation after another."""


class Spoken(IntEnum):
    """What a row of WORDS is about; its last column."""

    SEGMENT = 0
    """A whole segment: nobody knows where its words are."""
    WORD = 1
    """A word, as it is written between spaces or marks."""
    PAUSE = 2
    """A mark that a reader stops at; its characters may be none, where a word is followed by an end alone."""


WORD_BEGIN, WORD_COLUMNS = 2, 4
"""Of WORDS [n, 4]: the first character in TEXT and the one after the last, where it begins, and a `Spoken`.

Where it begins is told by the frontend in rows of the segment's units, by the talker in frames from the
window's first new one, by the vocoder in samples from the chunk's first one."""


@dataclass(frozen=True)
class StreamAccount:
    """What became of one stream, for its line of the log.

    Args:
        seconds: from the request to its end.
        queue_s: until it had a slot; None: it never had one.
        first_chunk_s: until its first audio had left the server; None: none did.
        longest_gap_s: from one chunk to the next; None: there was no second one.
        least_slack_s: of audio that its listener had left when a chunk came, 0 of one who had run dry; None:
            as above.
        frames: that were sent to the codec.
    """

    stream: int
    request_id: str
    ending: Ending
    seconds: float
    queue_s: float | None
    first_chunk_s: float | None
    longest_gap_s: float | None
    least_slack_s: float | None
    frames: int

    @property
    def name(self) -> str:
        return f"stream {self.stream} (request {self.request_id!r})"


@dataclass(frozen=True)
class IntHeader:
    """A frozen record of integers that travels as one INT64 tensor [k], k = number of fields."""

    def to_array(self) -> npt.NDArray[np.int64]:
        return np.array(astuple(self), dtype=np.int64)

    @classmethod
    def from_array(cls, values: Sequence[int] | npt.NDArray[np.int64]) -> Self:
        flat = np.asarray(values, dtype=np.int64).reshape(-1)
        names = [field.name for field in fields(cls)]
        if len(flat) != len(names):
            expected = f"{len(names)} ({', '.join(names)})"
            raise ValueError(f"{cls.__name__}: {len(flat)} values, expected {expected}")
        return cls(*(int(value) for value in flat))


@dataclass(frozen=True)
class SegmentHeader(IntHeader):
    """SEGMENT: frontend -> encoder -> talker. One per segment of a stream."""

    stream: int
    """Server-wide id of the stream, drawn by the frontend (63 random bits)."""
    segment: int
    """Index in the stream, from 0."""
    last: int
    """1 on the stream's last segment."""
    char_start: int
    char_end: int
    """Offsets of the segment in the client's TEXT, in characters."""
    seed: int
    """Seed of the stream's draws: the client's, or one the frontend picked."""
    pause_frames: int = 0
    """Silent frames that the talker adds after the segment; 0 on a stream's last."""
    reference: int = 0
    """Key of the speech prompt in the encoder's voice cache, 63 bits; 0 = a named voice."""
    frontend: int = 0
    """Address of the frontend's socket, where the stream's progress is told; 0 = nobody listens."""
    voice: int = 0
    """Place among the family's voices; after the last one: the reference's own."""
    asked_us: int = 0
    """When the frontend took the request, in microseconds of the machine's monotonic clock; 0 = not told."""
    recall: int = 0
    """Tokens of the stream's first segment that the talker puts after the prompt, the last ones, at most;
    0 = the prompt is whole. Of a first segment always 0."""


@dataclass(frozen=True)
class WindowHeader(IntHeader):
    """WINDOW: talker -> vocoder. Frames = left context + new + look-ahead."""

    address: int
    """The talker's acknowledgement socket (see transport/receivers.py); 0 = nobody listens."""
    stream: int
    generation: int
    """Counts uses of the stream's slot, so that a late acknowledgement never hits its successor."""
    chunk: int
    """Dense per stream, from 0."""
    sequence: int
    """Order of sending over all streams of the talker."""
    context: int
    new: int
    lookahead: int
    """Frames of FRAMES before, in, and after the part that becomes audio. new = 0: empty closing window."""
    last: int
    reason: int
    """A StopReason; RUNNING unless last = 1."""
    position: int = 0
    """Of the first new frame among its segment's that are heard; where it is 0, the codec begins anew."""
    speed: int = 1_000
    """Thousandths of the codec's own pace, at which the stream is heard."""
    voice: int = 0
    """As in the stream's segments."""

    @property
    def stream_key(self) -> tuple[int, int, int]:
        """Tells streams of all talkers apart, and one stream's use of its slot from the next."""
        return self.address, self.stream, self.generation


@dataclass(frozen=True)
class Stats(IntHeader):
    """STATS: running totals of a stream, on every chunk."""

    stream: int
    seed: int
    frames: int
    target_steps: int
    drafted: int
    accepted: int
    pool_size: int
    """Streams in the pool when the chunk was cut."""
    stop_reason: int
    char_end: int
    """End of the text spoken so far, in characters of TEXT (whole segments)."""
    decode_us: int
    """Microseconds that those target steps took, drafts included; a step that served several streams counts
    whole for each."""
    drafter: int
    verifier: int
    """Places in `drafter_names` and `VERIFIERS`: what the stream asked for or was given."""
