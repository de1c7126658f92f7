"""Who waits for a slot, in which order, and what one more stream may expect."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence

from talkahead.config import LEAST_URGENT, MOST_URGENT, patience
from talkahead.engine.engine_config import EngineConfig
from talkahead.engine.running_mean import RunningMean
from talkahead.transport.messages import Outlook

_MEMORY = 16
"""Streams: a pool that fills up is another one within a second or two."""
_STANDING_SHARE = 0.25
"""Of the usual patience, where the line stands."""


class WaitingLine:
    """Newcomers in the order of when their listeners' patience ends: the urgent overtake, and nobody starves.

    It learns how often one leaves where all are busy, and what a first chunk takes beside the wait. A stream
    whose first chunk is predicted to come too late is not let in; one that is not urgent waits for as long as
    the line is.

    A crowd has begun when the longest wait that is allowed is over. A line that outlasts it stands: more come
    than leave, and each waits for as long as the line is, which speaks no more than a short one. So nobody
    joins it who would wait for more than a part of that, until it has been away for as long (Nichols,
    Jacobson: Controlling Queue Delay, 2012).

    Args:
        rows: streams that a step decodes at once.
    """

    def __init__(self, rows: int, config: EngineConfig) -> None:
        self._rows = rows
        self._max_wait_s = config.max_wait_s or math.inf
        self._usual_s = config.max_wait_s or config.first_chunk_limit_s
        self._slot_s = RunningMean(_MEMORY, 0.5 / rows)
        """From one that leaves to the next."""
        self._awaited_at: float | None = None
        """When the last one left, if somebody waited then."""
        self._work_s = RunningMean(_MEMORY, 0.05)
        self._stands = self._has_waiters = False
        self._changed_at = 0.0

    def left(self, now: float, held_s: float, *, among: int, is_awaited: bool) -> None:
        """A stream ends that has had a slot for so long, as one of so many.

        From one end to the next while somebody waits is what the next one will wait. As long as nobody does,
        one leaves as often as so many share so long (Little's law); fewer than a step takes would leave a
        fuller pool no sooner, for a step over more rows takes longer.

        Args:
            is_awaited: somebody waits for a slot.
        """
        if is_awaited and self._awaited_at is not None:
            self._slot_s.add(now - self._awaited_at)
        else:
            self._slot_s.add(held_s / max(among, self._rows))
        self._awaited_at = now if is_awaited else None

    def look(self, now: float, *, has_waiters: bool) -> None:
        """Told at least whenever it changes, and at `review_at`.

        Args:
            has_waiters: somebody waits for a slot who would not wait for ever.
        """
        if has_waiters is not self._has_waiters:
            self._has_waiters, self._changed_at = has_waiters, now
        if now >= self._changed_at + self._max_wait_s:
            self._stands = has_waiters

    @property
    def review_at(self) -> float:
        """When it stands, or is away, for so long that this counts."""
        is_settled = self._stands is self._has_waiters
        return math.inf if is_settled else self._changed_at + self._max_wait_s

    def heard(self, seconds: float) -> None:
        """A first chunk took so long, the wait for a slot left out."""
        self._work_s.add(seconds)

    def turn_at(self, arrived_at: float, urgency: int) -> float:
        """Of two newcomers, the one with the earlier turn gets a slot first."""
        return arrived_at + patience(urgency) * self._usual_s

    def first_chunk_s(self, num_ahead: int, num_free: int) -> float:
        """Of a stream that comes now, after so many that wait, where so many may have a slot now."""
        return self._outlook(num_ahead, num_free).first_chunk_s

    def outlooks(self, ahead: Sequence[float], num_free: int, now: float) -> tuple[Outlook, ...]:
        """What newcomers find now, by their urgency.

        Args:
            ahead: turns of those who wait for a slot, ascending.
        """
        urgencies = range(LEAST_URGENT, MOST_URGENT + 1)
        return tuple(self.outlook(ahead, num_free, now, urgency) for urgency in urgencies)

    def outlook(self, ahead: Sequence[float], num_free: int, now: float, urgency: int) -> Outlook:
        """What one newcomer finds; nobody has a limit as long as it would be held against a guess."""
        has_limit = self._slot_s.is_known and urgency != LEAST_URGENT
        share = _STANDING_SHARE if self._stands else 1.0
        limit_s = share * patience(urgency) * self._max_wait_s if has_limit else math.inf
        return self._outlook(bisect_right(ahead, self.turn_at(now, urgency)), num_free, limit_s)

    def _outlook(self, num_ahead: int, num_free: int, limit_s: float = math.inf) -> Outlook:
        return Outlook(num_ahead + 1 - num_free, self._slot_s.value, self._work_s.value, limit_s)
