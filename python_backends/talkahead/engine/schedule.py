"""Who decodes next: earliest deadline first, and whoever is seconds ahead steps aside for newcomers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Contender:
    """A stream that could decode: its slot, its deadline, and whether it still owes its first window."""

    slot: int
    deadline: float
    is_newcomer: bool


@dataclass(frozen=True)
class Choice:
    """The slots to run, and when to choose again because a parked stream's lead has shrunk."""

    slots: tuple[int, ...]
    review_at: float


def choose(contenders: Sequence[Contender], now: float, *, max_rows: int, max_lead_s: float) -> Choice:
    """Earliest deadline first, at most `max_rows`.

    While someone waits for a first window, streams with more than `max_lead_s` in hand are parked: a step
    over fewer rows is a shorter one.
    """
    crowded = any(one.is_newcomer for one in contenders)
    parked = [
        one for one in contenders if crowded and not one.is_newcomer and one.deadline - now > max_lead_s
    ]
    running = sorted(
        (one for one in contenders if one not in parked), key=lambda one: (one.deadline, one.slot)
    )
    review_at = min((one.deadline - max_lead_s for one in parked), default=math.inf)
    return Choice(tuple(one.slot for one in running[:max_rows]), review_at)
