"""What a step costs on this machine, by drafter, size of the draft and number of streams."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import mean

from talkahead.speculation.pairs import PLAIN

PLAIN_DRAFTER = PLAIN.drafter
_STEADY = 0.1
"""A quiet machine's spread is 0.02."""


@dataclass(frozen=True)
class StepCost:
    """Seconds of a step of `rows` streams, each with a tree of `nodes`, root and draft included.

    Plain decoding is drafter `none` with 1 node.
    """

    drafter: str
    nodes: int
    rows: int
    seconds: float
    spread: float = 0.0
    """Median distance of its samples from their median, as a share of it."""


@dataclass(frozen=True)
class StepCosts:
    """Measured costs, and lines between them for sizes and numbers of streams in between.

    Args:
        reach: how far ahead weights were fetched meanwhile, by rows (`backbone.reach_choice`); of decoders
            that fetch nothing ahead, none.
    """

    measured: tuple[StepCost, ...]
    reach: tuple[int, ...] = ()

    @property
    def is_steady(self) -> bool:
        """Whether the machine was quiet enough for the figures to be kept."""
        return mean(one.spread for one in self.measured) < _STEADY

    @property
    def rows(self) -> list[int]:
        """The numbers of streams that were measured, ascending."""
        return sorted({one.rows for one in self.measured})

    @property
    def drafters(self) -> list[str]:
        return list(dict.fromkeys(one.drafter for one in self.measured if one.drafter != PLAIN_DRAFTER))

    def seconds(self, drafter: str, nodes: int, rows: int) -> float:
        """Of a step; beyond what was measured it grows as within.

        Raises KeyError for a drafter that was not measured.
        """
        counts = self.rows
        return _on_lines(counts, [self._of_rows(drafter, nodes, count) for count in counts], rows)

    def _of_rows(self, drafter: str, nodes: int, rows: int) -> float:
        curve = {
            one.nodes: one.seconds
            for one in self.measured
            if one.rows == rows and one.drafter in (drafter, PLAIN_DRAFTER)
        }
        if nodes > 1 and len(curve) == 1:
            raise KeyError(drafter)
        sizes = sorted(curve)
        # More nodes never cost less: where they seem to, something else was slow.
        return _on_lines(sizes, list(accumulate((curve[size] for size in sizes), max)), nodes)


def _on_lines(places: Sequence[int], values: Sequence[float], place: int) -> float:
    """The value at `place` on the lines through the points, of which there is at least one.

    Beyond the last it goes on as from the first to the last; before the first it is the first's.
    """
    if place <= places[0] or len(places) == 1:
        return values[0]
    if place > places[-1]:
        slope = (values[-1] - values[0]) / (places[-1] - places[0])
        return values[-1] + slope * (place - places[-1])
    right = bisect_left(places, place)
    share = (place - places[right - 1]) / (places[right] - places[right - 1])
    return values[right - 1] + share * (values[right] - values[right - 1])
