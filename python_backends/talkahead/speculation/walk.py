"""What every verifier walks by, in C where it can read the step's tensors and in tensors elsewhere.

Shapes: B rows, N nodes, M nodes of a path at most, C codebooks, V vocabulary, D hidden size.
"""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from talkahead.speculation import native_walk, torch_walk
from talkahead.speculation.contracts import Accepted, Context, Scored
from talkahead.speculation.passing import Passing
from talkahead.speculation.similarity_groups import SimilarityGroups
from talkahead.speculation.token_tree import TokenTree


class Walk(Protocol):
    """Over scored trees. Of roots alone each one is plain decoding."""

    def match(self, tree: TokenTree, scored: Scored, context: Context) -> Accepted:
        """To the child that is the token drawn after its parent, as far as there is one."""

    def longest(self, tree: TokenTree, scored: Scored, context: Context, passing: Passing) -> Accepted:
        """The longest path of nodes that pass; ties go to the likelier one, then to the earlier node.

        The next root is the first draw at its end. Nothing is accepted after the end of speech: a path that
        goes on there is no longer than one that stops.
        """

    def ratio(
        self,
        tree: TokenTree,
        scored: Scored,
        context: Context,
        groups: SimilarityGroups | None = None,
        bias: float = 0.0,
    ) -> Accepted:
        """Try a node's children in turn until one is accepted; if none is, draw what is left.

        A child is accepted when a uniform number is below q / p + `bias` of its label; never where a rule
        forbids it, which gives it a logit of -inf. A position's noise is its own, and no position is settled
        twice: what is drawn is independent of what was refused before.

        Args:
            groups: compare groups of tokens instead of tokens.
        """

    def advance_rows(self, tree: TokenTree, scored: Scored, accepted: Accepted, context: Context) -> Tensor:
        """Bring the context's rows to the end of their paths: next roots, positions, hidden states.

        Returns the tokens [B, M, C] after the former roots, the next root last; beyond a row's count,
        anything.
        """


def walk_of(scored: Scored) -> Walk:
    """The one that can read what a step scored."""
    return native_walk if native_walk.can_read(scored) else torch_walk
