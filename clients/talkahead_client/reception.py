"""One utterance as it is received: what has come, whether the protocol allows it, and when patience ends.

No input or output here: the synchronous and the asyncio client share it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tritonclient.grpc import service_pb2

from talkahead_client import protocol, wire
from talkahead_client.errors import (
    Cancelled,
    DeadlineExceeded,
    ServerFailure,
    ServerUnavailable,
    StreamBroken,
    from_status,
)
from talkahead_client.patience import Patience
from talkahead_client.protocol import Spoken, Stats, StopReason


@dataclass(frozen=True)
class Word:
    """A word of the text, or a pause, where its speech begins; it ends where the next one begins."""

    char_start: int
    char_end: int
    """Its characters in the text that was sent: `text[char_start:char_end]`."""
    start_s: float
    """From the beginning of the utterance's audio."""
    kind: Spoken


@dataclass(frozen=True)
class AudioChunk:
    """A piece of an utterance's audio, as it arrived."""

    audio: npt.NDArray[np.float32]
    """Mono samples in -1..1, [samples], read-only."""
    index: int
    """From 0, dense."""
    sample_rate_hz: int
    is_last: bool
    stats: Stats
    elapsed_s: float
    """Arrival, in seconds since the request was sent."""
    words: tuple[Word, ...] = ()
    """Those that begin in this chunk, in order."""

    @property
    def duration_s(self) -> float:
        return len(self.audio) / self.sample_rate_hz


@dataclass(frozen=True)
class End:
    """The one terminal event of an utterance: done (no error), failed, or cancelled."""

    error: Exception | None


def cancelled_here() -> End:
    return End(Cancelled("the utterance was cancelled by its own client"))


class Reception:
    """Checks one stream's responses and turns them into chunks."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._started_s = time.perf_counter()
        self._latest_s = self._started_s
        self._num_chunks = 0
        self._num_samples = 0
        self._is_final = False
        self._has_failed = False
        self._num_retries = 0
        self._last: AudioChunk | None = None

    @property
    def is_speaking(self) -> bool:
        return self._num_chunks > 0

    @property
    def is_over(self) -> bool:
        """Whether the server has said its last (all audio, or an error): there is nothing to cancel."""
        return self._last is not None or self._has_failed

    def accept(self, message: service_pb2.ModelStreamInferResponse) -> AudioChunk | None:
        """The chunk in a response; None where it only marks the end, or where it has no samples to play."""
        self._latest_s = time.perf_counter()
        if message.error_message:
            self._has_failed = True
            raise from_status("UNKNOWN", message.error_message, is_speaking=self.is_speaking)
        if self._is_final:
            raise StreamBroken("a response arrived after the final one")
        self._is_final = wire.is_final(message.infer_response)
        tensors = wire.read_tensors(message.infer_response)
        if not tensors:
            return None
        chunk = self._chunk(tensors)
        self._check_order(chunk)
        return chunk if len(chunk.audio) else None

    def resume(self) -> None:
        """Nothing was read for a while, as its listener took nothing; patience begins anew."""
        self._latest_s = time.perf_counter()

    def finish(self) -> None:
        """The server closed the stream without an error: raises unless the utterance is complete."""
        if self._last is None:
            raise StreamBroken(f"the server ended the stream early, after {self._num_chunks} chunks")
        if self._last.stats.stop_reason == StopReason.CANCELLED:
            raise Cancelled("the server cancelled the stream")
        if self._last.stats.stop_reason == StopReason.ERROR:
            raise ServerFailure("the server gave up on the stream")

    def may_retry(self, error: Exception | None) -> bool:
        """Nothing was heard, and another server, or this one in a moment, may speak it."""
        is_away = isinstance(error, ServerUnavailable)
        return is_away and not self.is_speaking and self._num_retries < self._patience.retries

    def retry(self) -> float:
        """The request is to be sent again, in so many seconds."""
        pause_s = self._patience.pause_s(self._num_retries)
        self._num_retries += 1
        self._has_failed = self._is_final = False
        return pause_s

    def patience_s(self) -> float | None:
        """Seconds until a deadline passes (never negative); None = no deadline."""
        return self._patience.left_s(self._started_s, self._latest_s, time.perf_counter())

    def impatience(self) -> DeadlineExceeded:
        """The error that says which deadline passed, after how much speech."""
        total_s, chunk_s = self._patience.total_s, self._patience.chunk_s
        waited_s = time.perf_counter() - self._started_s
        which = (
            f"the utterance was not complete after {total_s:g} s"
            if total_s is not None and waited_s >= total_s
            else f"no chunk for {chunk_s:g} s"
        )
        return DeadlineExceeded(f"{which}; {self._num_chunks} chunks had arrived")

    def _chunk(self, tensors: dict[str, Any]) -> AudioChunk:
        try:
            rate_hz = int(tensors[protocol.SAMPLE_RATE.name][0])
            return AudioChunk(
                audio=tensors[protocol.AUDIO.name],
                index=int(tensors[protocol.CHUNK_INDEX.name][0]),
                sample_rate_hz=rate_hz,
                is_last=bool(tensors[protocol.IS_LAST.name][0]),
                stats=Stats.from_wire(tensors[protocol.STATS.name]),
                elapsed_s=self._latest_s - self._started_s,
                words=tuple(self._words(tensors[protocol.WORDS.name], rate_hz)),
            )
        except (KeyError, IndexError, ValueError) as error:
            raise StreamBroken(f"a response cannot be read: {error!r}") from error

    def _words(self, rows: npt.NDArray[np.int32], rate_hz: int) -> Iterator[Word]:
        for char_start, char_end, sample, kind in rows.reshape(-1, protocol.WORDS.shape[1]).tolist():
            yield Word(char_start, char_end, (self._num_samples + sample) / rate_hz, Spoken(kind))

    def _check_order(self, chunk: AudioChunk) -> None:
        if self._last is not None:
            raise StreamBroken(f"chunk {chunk.index} arrived after the last one ({self._last.index})")
        if chunk.index != self._num_chunks:
            raise StreamBroken(f"chunk {chunk.index} arrived, expected {self._num_chunks}")
        self._num_chunks += 1
        self._num_samples += len(chunk.audio)
        if chunk.is_last:
            self._last = chunk
