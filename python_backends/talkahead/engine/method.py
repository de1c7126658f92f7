"""How one stream is drafted for and verified."""

from __future__ import annotations

from dataclasses import dataclass

from talkahead.engine.draft_budget import DraftBudget
from talkahead.speculation.contracts import Drafter, Verifier
from talkahead.speculation.pairs import PLAIN, Pair


@dataclass(frozen=True, eq=False)
class Method:
    """A drafter, a verifier, and how much is drafted. Rows of one method are drafted and verified together.

    Args:
        pair: their names, for whoever counts.
        nodes: of a tree at most, root included; None: the drafter's own default.
        tells_probs: whether the verifier reads the distributions of drafted tokens.
        budget: what is worth drafting now, or None where the number of nodes is fixed.
    """

    drafter: Drafter
    verifier: Verifier
    pair: Pair = PLAIN
    nodes: int | None = None
    tells_probs: bool = True
    budget: DraftBudget | None = None

    def nodes_among(self, rows: int) -> int | None:
        """Nodes of each tree in a step of so many rows; 1: no draft."""
        return self.nodes if self.budget is None else self.budget.choose(rows, self.nodes)
