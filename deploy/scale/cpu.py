"""The cores of a machine, which all that runs on it shares alike."""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass

import simpy

_WAIT_S = 0.002
"""Of a piece that finds all cores busy. Linux looks at every tick who should run, mostly 250 times a second:
half of one passes, on average.
"""


@dataclass(eq=False)
class Cpu:
    """Each piece of work gets a core, or, after a short wait, as much of the cores as every other."""

    env: simpy.Environment
    cores: int

    def __post_init__(self) -> None:
        self._served_s = 0.0
        """That each piece has got which was there all the time."""
        self._at_s = 0.0
        self._pieces: list[tuple[float, int, simpy.Event]] = []
        self._numbers = itertools.count()
        self._alarm = 0

    def work(self, seconds: float) -> simpy.Event:
        """Happens when so much of a core was given."""
        done = self.env.event()
        if len(self._pieces) < self.cores:
            self._begin(seconds, done)
        else:
            self.env.timeout(_WAIT_S).callbacks.append(lambda _: self._begin(seconds, done))
        return done

    def _begin(self, seconds: float, done: simpy.Event) -> None:
        self._advance()
        heapq.heappush(self._pieces, (self._served_s + seconds, next(self._numbers), done))
        self._set_alarm()

    @property
    def _share(self) -> float:
        return min(1.0, self.cores / max(len(self._pieces), 1))

    def _advance(self) -> None:
        self._served_s += (self.env.now - self._at_s) * self._share
        self._at_s = self.env.now

    def _set_alarm(self) -> None:
        """For the piece that is done next; an earlier alarm means nothing any more."""
        self._alarm += 1
        if self._pieces:
            left_s = max(0.0, self._pieces[0][0] - self._served_s) / self._share
            alarm = self._alarm
            self.env.timeout(left_s).callbacks.append(lambda _: self._finish(alarm))

    def _finish(self, alarm: int) -> None:
        if alarm != self._alarm:
            return
        self._advance()
        # The one that the alarm was for is done, whatever rounding says.
        self._served_s = max(self._served_s, self._pieces[0][0])
        while self._pieces and self._pieces[0][0] <= self._served_s:
            heapq.heappop(self._pieces)[2].succeed()
        self._set_alarm()
