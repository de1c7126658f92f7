"""What drafting ahead is worth on this machine: from measured step costs and counted acceptance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import prod

from talkahead.drafting.acceptance import Acceptance
from talkahead.drafting.draft_sizes import DraftSizes
from talkahead.drafting.drafters import verifiers_of
from talkahead.engine.step_costs import PLAIN_DRAFTER, StepCosts
from talkahead.speculation.pairs import PLAIN, Pair

WORTH = 1.05
"""Below so many times plain decoding's speed a draft is not worth it: costs are known to a few percent."""


@dataclass(frozen=True)
class SizeForecast:
    """The forecast of one drafter."""

    drafter: str
    costs: StepCosts
    acceptance: Acceptance | None

    def cost_s(self, nodes: int, rows: int) -> float:
        """Of a step."""
        return self.costs.seconds(self.drafter, nodes, rows)

    def gain(self, nodes: int) -> float | None:
        """Tokens that a step adds to a stream; None where nobody has counted."""
        return self.acceptance.of(nodes) if self.acceptance else None

    def speed_up(self, nodes: int, rows: int) -> float:
        """Tokens a second, over plain decoding's; 1 where nobody has counted what is accepted."""
        return (self.gain(nodes) or 1.0) * self.cost_s(1, rows) / self.cost_s(nodes, rows)

    def best_nodes(self, sizes: Iterable[int], rows: int) -> int:
        """The size to draft with; 1 where none is worth it."""
        best = max(sizes, key=lambda nodes: self.speed_up(nodes, rows))
        return best if self.speed_up(best, rows) >= WORTH else 1


@dataclass(frozen=True)
class DraftForecast:
    """Of all drafters that a server has.

    Args:
        costs: of this machine.
        acceptance: by drafter, where it was counted.
    """

    costs: StepCosts
    acceptance: Mapping[str, Acceptance] = field(default_factory=dict)

    def of(self, drafter: str) -> SizeForecast | None:
        """None for a drafter that was not measured."""
        if drafter not in self.costs.drafters:
            return None
        return SizeForecast(drafter, self.costs, self.acceptance.get(drafter))

    def fastest_pair(self, verifier: str, sizes: Mapping[str, DraftSizes]) -> Pair:
        """The drafter that brings most with this verifier, over all numbers of streams; none if none is.

        What was counted is `match`, which no verifier accepts less than.

        Args:
            sizes: of the drafters that there are.
        """
        brought = {
            name: prod(self.speed_ups(name, own).values())
            for name, own in sizes.items()
            if verifier in verifiers_of(name) and self.of(name) is not None
        }
        best = max(brought, key=lambda name: brought[name], default=PLAIN_DRAFTER)
        return Pair(best, verifier) if brought.get(best, 1.0) > 1.0 else PLAIN

    def speed_ups(self, drafter: str, sizes: DraftSizes) -> dict[int, float]:
        """By number of streams, with the best size for it that a request gets unasked: at least 1."""
        own = self.of(drafter)
        if own is None:
            return {}
        return {rows: own.speed_up(own.best_nodes(sizes.usual, rows), rows) for rows in self.costs.rows}
