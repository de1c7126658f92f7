"""Verification by equality: a node is accepted when it is what plain decoding would have drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from talkahead.speculation import native_walk
from talkahead.speculation.contracts import AcceptCall, Accepted, Context, Preserves, Scored
from talkahead.speculation.target_tokens import TargetTokens
from talkahead.speculation.token_tree import TokenTree
from talkahead.speculation.verifier_options import VerifierOptions
from talkahead.speculation.walk import walk_of


@dataclass(frozen=True)
class MatchVerifier:
    """One draw from q per node, keyed by position: the child equal to it is followed, or it is the next root.

    The tokens are those of plain decoding with that seed, whatever the tree. One codebook (C = 1).
    """

    preserves = Preserves.TOKENS
    history_frames = 0
    trials = 1

    @classmethod
    def of(cls, options: VerifierOptions, target: TargetTokens) -> Self:
        return cls()

    def accept(self, tree: TokenTree, scored: Scored, context: Context) -> Accepted:
        return walk_of(scored).match(tree, scored, context)

    def call(self, tree: TokenTree, scored: Scored, context: Context) -> AcceptCall:
        return native_walk.match_call(tree, scored, context)
