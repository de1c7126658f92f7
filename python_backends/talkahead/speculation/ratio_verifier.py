"""Speculative sampling: the same distribution as plain decoding, token by token."""

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
class RatioVerifier:
    """A drafted token is accepted with probability q / p; the first one refused is replaced from (q - p)+.

    Leviathan et al. 2023, algorithm 1. One codebook (C = 1).
    """

    preserves = Preserves.DISTRIBUTION
    history_frames = 0
    trials = 0

    @classmethod
    def of(cls, options: VerifierOptions, target: TargetTokens) -> Self:
        return cls()

    def accept(self, tree: TokenTree, scored: Scored, context: Context) -> Accepted:
        return walk_of(scored).ratio(tree, scored, context)

    def call(self, tree: TokenTree, scored: Scored, context: Context) -> AcceptCall:
        return native_walk.ratio_call(tree, scored, context)
