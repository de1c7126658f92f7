"""A new version comes: under load, one replica after the other is ended and started again."""

from __future__ import annotations

import time
from dataclasses import dataclass
from threading import Event

from instruments.report import Spread
from perf.replicas.crowd import Ending, Heard
from perf.replicas.scene import Scene, open_streams


@dataclass(frozen=True)
class Turn:
    """One replica's.

    Args:
        open_there: streams that it had open when it was told to end.
        ended_s: until it had ended.
        returned_s: until the proxy sent it streams again.
    """

    open_there: int
    ended_s: float
    returned_s: float


@dataclass(frozen=True)
class Rolled:
    """What became of all streams.

    Args:
        first_chunk_s: of streams that were asked for while a replica was away, and of the others.
    """

    streams: int
    whole: int
    turns: list[Turn]
    away_first_chunk_s: Spread
    first_chunk_s: Spread
    heard: list[Heard]

    @property
    def is_as_promised(self) -> bool:
        """No stream failed, though each replica had some when it was told."""
        return self.whole == self.streams > 0 and min(turn.open_there for turn in self.turns) > 0

    def row(self) -> dict[str, str]:
        return {
            "streams": str(self.streams),
            "failed": str(self.streams - self.whole),
            "open at the signals": " ".join(str(turn.open_there) for turn in self.turns),
            "ended after": " ".join(f"{turn.ended_s:.1f} s" for turn in self.turns),
            "back after": " ".join(f"{turn.returned_s:.1f} s" for turn in self.turns),
            "first chunk p50/p95, both there": _quantiles(self.first_chunk_s),
            "one away": _quantiles(self.away_first_chunk_s),
        }


def roll(scene: Scene) -> Rolled:
    """Both replicas in turn, as a rolling update without a surplus one does."""
    over = Event()
    listeners = scene.crowd.keep_speaking(over)
    away, turns = [], []
    for number in range(len(scene.replicas)):
        time.sleep(_BETWEEN_S)
        began = time.monotonic()
        turns.append(_replace(scene, number))
        away.append((began, time.monotonic()))
    time.sleep(_BETWEEN_S)
    over.set()
    heard = [one for listener in listeners for one in listener.result()]
    whole = [one for one in heard if one.ending is Ending.WHOLE]

    def waits(was_away: bool) -> Spread:
        return Spread.of(
            [
                one.spoke_s - one.asked_s
                for one in whole
                if one.spoke_s is not None
                and was_away is any(began <= one.asked_s < ended for began, ended in away)
            ]
        )

    return Rolled(len(heard), len(whole), turns, waits(True), waits(False), heard)


_BETWEEN_S = 5.0
"""The load goes on meanwhile."""


def _replace(scene: Scene, number: int) -> Turn:
    replica = scene.replicas[number]
    open_there = open_streams(replica)
    told_s = time.monotonic()
    replica.stop()
    ended_s = time.monotonic() - told_s
    replica.start()
    return Turn(open_there, ended_s, scene.await_up(number, told_s))


def _quantiles(spread: Spread) -> str:
    return f"{1e3 * spread.p50:.0f}/{1e3 * spread.p95:.0f} ms of {spread.count}"
