"""Who decodes next and who may begin: while someone begins, few at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

_MARGIN = 3.0
"""How many times as long as its stream's pace says a window may take, and must be in time: prompts, the codec
and others' windows come between. On an EPYC with AVX2 alone, at 5 requests a second of 6, 48 of 225 listeners
ran dry with half of that, and 10 where whoever begins is preferred; so, 51 of 300, and 27. Simulated with the
costs of a machine six times as fast, that speaks 6 % more of 16 streams that begin again at once."""
_PRESSING = 1.25
"""The same of who is heard already, and would run dry while others begin."""


@dataclass(frozen=True)
class Contender:
    """A stream that has a slot.

    Args:
        deadline: of a newcomer's first window; of others, when their listeners have heard everything.
        is_newcomer: it still owes its first window.
        is_beginning: or another of the short ones, which nobody plays for long.
        lacks_s: seconds of speech that its next window waits for.
    """

    slot: int
    deadline: float
    is_newcomer: bool
    is_beginning: bool = False
    lacks_s: float = 0.0

    def has_in_hand(self, seconds: float, now: float) -> bool:
        """Whether its listener has more speech than that; a newcomer's has none."""
        return not self.is_newcomer and self.deadline - now > seconds

    def would_be_late(self, pace: float, now: float) -> bool:
        """Whether who waits for its beginning would wait too long at so many seconds of speech a second for
        each stream; a newcomer's first window is wanted at once."""
        is_late = _MARGIN * self.lacks_s / pace > self.deadline - now
        return self.is_newcomer or (self.is_beginning and is_late)

    def would_run_dry(self, pace: float, now: float) -> bool:
        """Whether its listener would have heard everything before its next window at that pace."""
        return not self.is_newcomer and _PRESSING * self.lacks_s / pace > self.deadline - now


@dataclass(frozen=True)
class Choice:
    """The slots to run, and when to choose again because a parked stream's lead has shrunk."""

    slots: tuple[int, ...]
    review_at: float


def choose(
    contenders: Sequence[Contender],
    now: float,
    *,
    max_rows: int,
    max_beginning: int,
    max_lead_s: float,
    pace: float,
    may_park: bool,
) -> Choice:
    """Earliest deadline first, at most `max_rows`.

    While someone begins who would be late otherwise, the steps are short ones: at most `max_beginning` rows
    and those of streams that would run dry, and streams with more than `max_lead_s` in hand are parked.

    Args:
        pace: of each stream where all are spoken together, in seconds of speech a second.
        may_park: false where so many streams are open that whole steps are wanted.
    """
    in_need = [one for one in contenders if not one.has_in_hand(max_lead_s, now)]
    if may_park and any(one.would_be_late(pace, now) for one in in_need):
        parked = (one.deadline - max_lead_s for one in contenders if one.has_in_hand(max_lead_s, now))
        first = _earliest(in_need, max_beginning)
        pressed = (one.slot for one in in_need if one.slot not in first and one.would_run_dry(pace, now))
        return Choice((*first, *pressed), min(parked, default=math.inf))
    return Choice(_earliest(contenders, max_rows), math.inf)


def _earliest(contenders: Sequence[Contender], count: int) -> tuple[int, ...]:
    """The slots of so many at most."""
    order = sorted(contenders, key=lambda one: (one.deadline, one.slot))
    return tuple(one.slot for one in order[:count])


@dataclass(frozen=True)
class Room:
    """What is left of a step: rows for segments without a slot, of which so many may be newcomers'."""

    rows: int
    newcomers: int


def room(
    contenders: Sequence[Contender], now: float, *, max_rows: int, max_beginning: int, max_lead_s: float
) -> Room:
    """Who has more than `max_lead_s` in hand keeps a slot, and nobody out.

    So there may be more streams than rows, but only as long as the rest of them have seconds in hand: a
    machine that does not keep up lets in no more than a step takes.

    Args:
        max_beginning: streams whose first short windows are made at once.
    """
    rows = max(max_rows - sum(not one.has_in_hand(max_lead_s, now) for one in contenders), 0)
    beginning = sum(one.is_beginning for one in contenders)
    return Room(rows, min(rows, max(max_beginning - beginning, 0)))
