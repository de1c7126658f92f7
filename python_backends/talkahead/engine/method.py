"""How one stream is drafted for and verified."""

from __future__ import annotations

from dataclasses import dataclass, replace

from talkahead.engine.draft_budget import DraftBudget
from talkahead.speculation.contracts import Drafter, DraftRequest, Verifier
from talkahead.speculation.history_rules import NO_RULES, HistoryRules
from talkahead.speculation.pairs import PLAIN, Pair


@dataclass(frozen=True, eq=False)
class Method:
    """A drafter, a verifier, and how much is drafted. Rows of one method are drafted and verified together.

    Args:
        pair: their names, for whoever counts.
        nodes: of a tree at most, root included; None: the drafter's own default.
        returns_probs: whether the verifier reads the distributions of drafted tokens.
        budget: what is worth drafting now, or None where the number of nodes is fixed.
        rules: what is made of the target's logits before it verifies.
    """

    drafter: Drafter
    verifier: Verifier
    pair: Pair = PLAIN
    nodes: int | None = None
    returns_probs: bool = True
    budget: DraftBudget | None = None
    rules: HistoryRules = NO_RULES

    @property
    def looks_back(self) -> bool:
        """Whether what has been said must be remembered."""
        return self.rules.looks_back or self.verifier.history_frames > 0

    def under(self, rules: HistoryRules) -> Method:
        return self if rules == self.rules else replace(self, rules=rules)

    def draft_request(self, nodes: int | None) -> DraftRequest:
        """Of a step of so many nodes."""
        return DraftRequest(nodes, self.returns_probs, self.verifier.trials)

    def nodes_among(self, rows: int) -> int | None:
        """Nodes of each tree in a step of so many rows; 1: no draft."""
        return self.nodes if self.budget is None else self.budget.choose(rows, self.nodes)
