"""Speculative sampling of groups of tokens that sound alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from talkahead.errors import BadRequest
from talkahead.speculation import native_walk
from talkahead.speculation.contracts import AcceptCall, Accepted, Context, Preserves, Scored
from talkahead.speculation.similarity_groups import SimilarityGroups
from talkahead.speculation.target_tokens import TargetTokens
from talkahead.speculation.token_tree import TokenTree
from talkahead.speculation.verifier_options import VerifierOptions
from talkahead.speculation.walk import walk_of


@dataclass(frozen=True)
class GroupsVerifier:
    """A drafted token draws one of its groups, and stands for it if the target agrees on the group.

    Accepted with probability Q / P of the group (Yanuka et al. 2025, equations 4 to 7); else a group is drawn
    from (Q - P)+ and a token of it as the target has it (equations 8 and 10), at once by a sparse product
    instead of by trials. Groups of one token each are `ratio`. One codebook (C = 1).
    """

    preserves = Preserves.GROUPS
    history_frames = 0
    trials = 0

    groups: SimilarityGroups

    @classmethod
    def of(cls, options: VerifierOptions, target: TargetTokens) -> Self:
        """Raises BadRequest for a similarity that the target has no groups of."""
        similarity = options.similarity
        if similarity is None and target.groups:
            similarity = next(iter(target.groups))
        if similarity is None or similarity not in target.groups:
            known = ", ".join(f"{one:g}" for one in target.groups) or "nothing: this voice has no groups"
            raise BadRequest("similarity", options.similarity, known)
        return cls(target.groups[similarity])

    def accept(self, tree: TokenTree, scored: Scored, context: Context) -> Accepted:
        return walk_of(scored).ratio(tree, scored, context, self.groups)

    def call(self, tree: TokenTree, scored: Scored, context: Context) -> AcceptCall:
        return native_walk.ratio_call(tree, scored, context, self.groups)
