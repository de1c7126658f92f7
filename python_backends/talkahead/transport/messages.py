"""What the models of one server tell each other: windows done, progress, cancels, load.

One message is one datagram.
"""

from __future__ import annotations

import json
import math
import struct
from dataclasses import asdict, dataclass, replace
from typing import get_args

from talkahead.errors import Code, TalkaheadError

_WINDOW_DONE = struct.Struct("<cqqqBd")
_DONE_TAG = b"W"
MAX_DATAGRAM = 65_536


@dataclass(frozen=True)
class WindowDone:
    """The vocoder is done with a window; `ok` is false when it failed.

    Args:
        seconds: its share of the time that its pass through the codec took.
    """

    stream: int
    generation: int
    chunk: int
    ok: bool = True
    seconds: float = 0.0


@dataclass(frozen=True)
class PassBegun:
    """The vocoder begins to decode a part of a batch: no word is to be expected of it until that is done. Of
    one that takes no time to speak of it says nothing.

    Args:
        oldest: the lowest sequence in the batch. Triton hands the windows over in their order: one that left
            well before, and is not in it, never will be.
        seconds: what the part will take, as far as is measured.
    """

    oldest: int
    seconds: float


@dataclass(frozen=True)
class StreamProgress:
    """The talker is done with the first `spoken` segments of a stream, or with all that may still come."""

    stream: int
    spoken: int
    is_over: bool = False


@dataclass(frozen=True)
class CancelRequest:
    """End one stream, or all streams of a Triton request id."""

    stream: int | None = None
    request_id: str | None = None
    reply_to: str = ""


@dataclass(frozen=True)
class CancelReport:
    """How many streams a cancel ended."""

    cancelled: int


@dataclass(frozen=True)
class LoadRequest:
    """Ask a talker how busy it is."""

    reply_to: str = ""


@dataclass(frozen=True)
class LoadReport:
    """How busy a talker is.

    Args:
        active: streams that hold a slot.
        queued: streams that wait for one.
        open_streams: streams whose client has not had the end yet; draining waits for these.
        slots: streams that fit at once.
        predicted_first_chunk_ms: for a request that came now.
        windows_in_flight: sent to the vocoder and not acknowledged.
        at_risk: streams that play, and whose listeners have less than 100 ms of audio left.
        slots_taken: by what streams say now, and what some of them say next.
    """

    active: int
    queued: int
    open_streams: int
    slots: int
    predicted_first_chunk_ms: float
    windows_in_flight: int = 0
    at_risk: int = 0
    slots_taken: int = 0


@dataclass(frozen=True)
class LongWait:
    """A first chunk would come after `predicted_s`; `limit_s` is the most that its listener waits."""

    predicted_s: float
    limit_s: float

    @property
    def error(self) -> TalkaheadError:
        predicted_ms, limit_ms = 1e3 * self.predicted_s, 1e3 * self.limit_s
        return TalkaheadError(
            f"the first chunk would come after {predicted_ms:.0f} ms, and {limit_ms:.0f} ms are the most at "
            f"this urgency; try again in about {predicted_ms - limit_ms:.0f} ms, ask another server, or wait "
            "with urgency 1",
            Code.RESOURCE_EXHAUSTED,
        )


@dataclass(frozen=True)
class Outlook:
    """What one more stream would find.

    Args:
        num_missing: slots that are to become free before it has one; 0 or fewer where it has one at once.
        slot_s: until the next of them is free, on average.
        work_s: of a first chunk, beside the wait for a slot.
        limit_s: the most that its listener waits.
    """

    num_missing: int = 0
    slot_s: float = 0.0
    work_s: float = 0.0
    limit_s: float = math.inf

    def behind(self, num_more: int) -> Outlook:
        """The same of who comes after so many more."""
        return replace(self, num_missing=self.num_missing + num_more)

    @property
    def first_chunk_s(self) -> float:
        return max(self.num_missing, 0) * self.slot_s + self.work_s

    @property
    def long_wait(self) -> LongWait | None:
        """Why it is not let in; None where it is. Who has a slot at once does not wait."""
        if self.num_missing <= 0 or self.first_chunk_s <= self.limit_s:
            return None
        return LongWait(self.first_chunk_s, self.limit_s)


@dataclass(frozen=True)
class Waits:
    """What newcomers find once `num_arrived` streams have come to the talker, by urgency from the lowest."""

    num_arrived: int
    outlooks: tuple[Outlook, ...]


_Plain = PassBegun | StreamProgress | CancelRequest | CancelReport | LoadRequest | LoadReport
Datagram = WindowDone | _Plain
_JSON_KINDS: dict[str, type[_Plain]] = {kind.__name__: kind for kind in get_args(_Plain)}


def encode(message: Datagram) -> bytes:
    """One datagram. Windows, of which there are many, are packed; the rest is JSON."""
    if isinstance(message, WindowDone):
        return _WINDOW_DONE.pack(
            _DONE_TAG, message.stream, message.generation, message.chunk, message.ok, message.seconds
        )
    return json.dumps({"kind": type(message).__name__, **asdict(message)}).encode()


def decode(data: bytes) -> Datagram:
    """The inverse of `encode`; raises ValueError for anything else."""
    if data[:1] == _DONE_TAG:
        try:
            _, stream, generation, chunk, ok, seconds = _WINDOW_DONE.unpack(data)
        except struct.error as error:
            raise ValueError(f"a window datagram of {len(data)} bytes") from error
        return WindowDone(stream, generation, chunk, bool(ok), seconds)
    fields = json.loads(data)
    try:
        return _JSON_KINDS[fields.pop("kind")](**fields)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"an unknown datagram: {data[:80]!r}") from error
