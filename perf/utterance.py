"""What an utterance felt like to whoever asked for it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import pairwise

from talkahead_client import AudioChunk, Figures, Listener, ServerBusy, SpeechError, Stats
from talkahead_client.protocol import STATS_FIELDS

UNTOLD = Stats(*(0,) * len(STATS_FIELDS))
"""In the chunks of a speaker that does not learn the server's figures."""


@dataclass(frozen=True)
class Utterance:
    """One request and its answer. Times since the request; `started_s` since the load began."""

    stream: int
    text: int
    started_s: float
    figures: Figures | None
    stats: Stats | None
    """The server's totals; None where they are untold, or where it failed, as the figures are."""
    error: str | None
    arrivals_ms: tuple[float, ...]
    durations_ms: tuple[float, ...]
    failed_ms: float | None = None
    """When it was refused, or broke."""

    @property
    def is_refused(self) -> bool:
        """Whether the server was too busy for it, and said so."""
        return self.error is not None and self.error.startswith(f"{ServerBusy.code}:")

    @property
    def gaps_ms(self) -> list[float]:
        return [later - earlier for earlier, later in pairwise(self.arrivals_ms)]

    @property
    def ended_s(self) -> float:
        """Arrival of the last chunk, since the load began."""
        return self.started_s + (self.arrivals_ms[-1] / 1e3 if self.arrivals_ms else 0.0)

    def stalled_ms(self, buffer_ms: float) -> float:
        """Silence in the middle of the speech, for a player that begins so long after the first chunk."""
        silence, played_ms = 0.0, 0.0
        for arrival_ms, duration_ms in zip(self.arrivals_ms, self.durations_ms, strict=True):
            played_ms = played_ms or arrival_ms + buffer_ms
            silence += max(0.0, arrival_ms - played_ms)
            played_ms = max(played_ms, arrival_ms) + duration_ms
        return silence

    def audio_until(self, end_s: float) -> float:
        """Seconds of audio that had arrived by then."""
        pieces = zip(self.arrivals_ms, self.durations_ms, strict=True)
        return sum(duration for arrival, duration in pieces if self.started_s + arrival / 1e3 <= end_s) / 1e3


class Hearing:
    """An utterance as it arrives, from when it is asked for.

    Args:
        stream, text: of the load.
        started_s: since the load began.
    """

    def __init__(self, stream: int, text: int, started_s: float) -> None:
        self._stream, self._text, self._started_s = stream, text, started_s
        self._listener = Listener()
        self._arrivals_ms: list[float] = []
        self._durations_ms: list[float] = []
        self._stats: Stats | None = None
        self._asked_s = time.perf_counter()
        self._error: str | None = None
        self._failed_ms: float | None = None

    @property
    def played_out_s(self) -> float:
        """When the audio so far has been played, in seconds since the request."""
        return self._listener.played_out_s

    def hear(self, chunk: AudioChunk) -> None:
        self._listener.hear(chunk)
        self._arrivals_ms.append(1e3 * chunk.elapsed_s)
        self._durations_ms.append(1e3 * chunk.duration_s)
        self._stats = chunk.stats

    def fail(self, error: SpeechError) -> None:
        self._error = f"{error.code}: {error}"
        self._failed_ms = 1e3 * (time.perf_counter() - self._asked_s)

    def utterance(self) -> Utterance:
        is_heard = self._error is None and self._stats is not None
        return Utterance(
            stream=self._stream,
            text=self._text,
            started_s=self._started_s,
            figures=self._listener.figures() if is_heard else None,
            stats=self._stats if is_heard and self._stats is not UNTOLD else None,
            error=self._error,
            arrivals_ms=tuple(self._arrivals_ms),
            durations_ms=tuple(self._durations_ms),
            failed_ms=self._failed_ms,
        )
