"""Who waits for a slot, in which order, and what one more stream may expect."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from talkahead.config import LEAST_URGENT, MOST_URGENT, patience
from talkahead.engine.engine_config import EngineConfig
from talkahead.engine.running_mean import RunningMean
from talkahead.transport.messages import Outlook

_MEMORY = 16
"""Streams: a pool that fills up is another one within a second or two."""


@dataclass(frozen=True)
class Room:
    """Slots that newcomers may have now, and those that are taken."""

    num_free: int
    num_taken: int


class WaitingLine:
    """Newcomers in the order of when their listeners' patience ends: the urgent overtake, and nobody starves.

    It learns how long streams hold a slot, and what a first chunk takes beside the wait for one. A stream
    whose first chunk is predicted to come too late is not let in; one that is not urgent waits for as long as
    the line is.

    Args:
        rows: streams that a step decodes at once: nobody waits where fewer are open.
    """

    def __init__(self, rows: int, config: EngineConfig) -> None:
        self._rows = rows
        self._max_wait_s = config.max_wait_s or math.inf
        self._usual_s = config.max_wait_s or config.first_chunk_limit_s
        self._slot_s = RunningMean(_MEMORY, 0.5)
        self._work_s = RunningMean(_MEMORY, 0.05)

    def held(self, seconds: float) -> None:
        """A stream has had a slot for so long."""
        self._slot_s.add(seconds)

    def heard(self, seconds: float) -> None:
        """A first chunk took so long, the wait for a slot left out."""
        self._work_s.add(seconds)

    def turn_at(self, arrived_at: float, urgency: int) -> float:
        """Of two newcomers, the one with the earlier turn gets a slot first."""
        return arrived_at + patience(urgency) * self._usual_s

    def first_chunk_s(self, num_ahead: int, room: Room) -> float:
        """Of a stream that comes now, behind so many that wait for room."""
        return self._outlook(num_ahead, room).first_chunk_s

    def outlooks(self, ahead: Sequence[float], room: Room, now: float) -> tuple[Outlook, ...]:
        """What newcomers find now, by their urgency.

        Args:
            ahead: turns of those who wait for a slot, ascending.
        """
        urgencies = range(LEAST_URGENT, MOST_URGENT + 1)
        return tuple(self.outlook(ahead, room, now, urgency) for urgency in urgencies)

    def outlook(self, ahead: Sequence[float], room: Room, now: float, urgency: int) -> Outlook:
        """What one newcomer finds; nobody has a limit as long as it would be held against a guess."""
        has_limit = self._slot_s.is_known and urgency != LEAST_URGENT
        limit_s = patience(urgency) * self._max_wait_s if has_limit else math.inf
        return self._outlook(bisect_right(ahead, self.turn_at(now, urgency)), room, limit_s)

    def _outlook(self, num_ahead: int, room: Room, limit_s: float = math.inf) -> Outlook:
        """Of so many who hold a slot for so long, one leaves that often (Little's law)."""
        slot_s = self._slot_s.value / max(room.num_taken, self._rows)
        return Outlook(num_ahead + 1 - room.num_free, slot_s, self._work_s.value, limit_s)
