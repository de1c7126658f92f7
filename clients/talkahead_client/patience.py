"""How long the clients wait, and for what, and when they ask again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

DEFAULT_CHUNK_DEADLINE_S = 30.0
"""Finite, because a server whose worker died says nothing."""

CONTROL_DEADLINE_S = 10.0
"""For an answer of `control` that a caller asked for."""

CANCEL_DEADLINE_S = 1.0
"""For an answer of `control` to the cancel of a stream that its reader left."""

CANCEL_PAUSES_S = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8)
"""A cancel can overtake its request and meet nothing, and a process that is held up (its own collection of
garbage will do) can miss the answer; then it is repeated after these pauses."""

CANCEL_LIMIT_S = 3.0
"""No cancel is repeated later than this after the first."""

FAREWELL_S = 2.0
"""How long a cancelled stream may take to end before its connection is cut."""


RETRY_PAUSES_S = (0.05, 0.1, 0.2, 0.4, 0.8)
"""Before a request is sent again; the last for all that follow. A server that restarts takes some seconds."""


@dataclass(frozen=True)
class Patience:
    """Deadlines of one utterance; None = wait for ever."""

    total_s: float | None = None
    """For the whole utterance, from the request on."""
    chunk_s: float | None = DEFAULT_CHUNK_DEADLINE_S
    """For the first chunk, and from each chunk to the next."""
    retries: int = 0
    """How often it is asked for again, where its server goes away before the first chunk."""

    def pause_s(self, retry: int) -> float:
        """Before the retry of this number, from 0."""
        return RETRY_PAUSES_S[min(retry, len(RETRY_PAUSES_S) - 1)]

    def left_s(self, started_s: float, latest_s: float, now_s: float) -> float | None:
        """Seconds until the first of the deadlines, never negative.

        Args:
            started_s: when the request was sent.
            latest_s: when something arrived last.
            now_s: on the same clock.
        """
        ends = [
            start + limit
            for start, limit in ((started_s, self.total_s), (latest_s, self.chunk_s))
            if limit is not None
        ]
        return max(0.0, min(ends) - now_s) if ends else None


def cancel_pauses() -> Iterator[float]:
    """The pauses after cancels that have met nothing, as long as it is worth asking again."""
    end_s = time.monotonic() + CANCEL_LIMIT_S
    for pause_s in CANCEL_PAUSES_S:
        if time.monotonic() > end_s:
            return
        yield pause_s
