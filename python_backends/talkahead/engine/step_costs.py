"""What a step costs on this machine, by drafter, size of the draft and number of streams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean

PLAIN_DRAFTER = "none"
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
    """Measured costs, and lines between them for sizes and numbers of streams in between."""

    measured: tuple[StepCost, ...]

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
        """Of a step; beyond what was measured the last line goes on.

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
        return _on_lines(sizes, [curve[size] for size in sizes], nodes)


def _on_lines(places: Sequence[int], values: Sequence[float], place: int) -> float:
    """The value at `place` on the lines through the points, of which there is at least one; never below the
    lowest of them."""
    if len(places) == 1:
        return values[0]
    right = next((index for index, other in enumerate(places) if other >= place), len(places) - 1)
    right = max(right, 1)
    slope = (values[right] - values[right - 1]) / (places[right] - places[right - 1])
    return max(values[right - 1] + slope * (place - places[right - 1]), min(values))
