"""Passes of several engines, timed by turns, so that what else the machine does meets all alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from instruments import report

_WARM_UPS = 3

Pass = Callable[[], object]


@dataclass(frozen=True)
class Case:
    """What one pass does.

    Args:
        part: of the server.
        engine: in words.
        batch: windows, prompts, or streams.
        size: of each: new frames, symbols, or nodes.
    """

    part: str
    engine: str
    batch: int
    size: int


@dataclass(frozen=True)
class Timing:
    """Milliseconds of a case's passes, in the order of the rounds."""

    case: Case
    pass_ms: list[float]

    @property
    def per_s(self) -> float:
        """How many of the batch a second, by the median pass."""
        return 1e3 * self.case.batch / float(np.median(self.pass_ms))


def time_by_turns(passes: Mapping[Case, Pass], rounds: int) -> list[Timing]:
    """A round is one pass of every case."""
    timings = [Timing(case, []) for case in passes]
    for turn in range(_WARM_UPS + rounds):
        for timing in timings:
            began = time.perf_counter()
            passes[timing.case]()
            if turn >= _WARM_UPS:
                timing.pass_ms.append(1e3 * (time.perf_counter() - began))
    return timings


def table(timings: Sequence[Timing]) -> str:
    """Of one part: a row for each batch and size, a column for each engine, with its ratio to the first's."""
    engines = list(dict.fromkeys(timing.case.engine for timing in timings))
    found = {(one.case.batch, one.case.size, one.case.engine): one.per_s for one in timings}
    rows = []
    for batch, size in dict.fromkeys((one.case.batch, one.case.size) for one in timings):
        speeds = [found[batch, size, engine] for engine in engines]
        shown = [f"{speed:.1f} ({speed / speeds[0]:.2f})" for speed in speeds]
        rows.append({"batch": str(batch), "size": str(size), **dict(zip(engines, shown, strict=True))})
    return report.markdown(rows)
