"""Speculative sampling that is told to be lenient by a constant."""

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
class BiasedVerifier:
    """A drafted token is accepted with probability min(1, q / p) + bias; a bias of 0 is `ratio`.

    Lin et al. 2025 ("speech speculative decoding"). One codebook (C = 1).
    """

    preserves = Preserves.NOTHING
    history_frames = 0
    trials = 0

    bias: float

    @classmethod
    def of(cls, options: VerifierOptions, target: TargetTokens) -> Self:
        return cls(options.bias)

    def accept(self, tree: TokenTree, scored: Scored, context: Context) -> Accepted:
        return walk_of(scored).ratio(tree, scored, context, bias=self.bias)

    def call(self, tree: TokenTree, scored: Scored, context: Context) -> AcceptCall:
        return native_walk.ratio_call(tree, scored, context, bias=self.bias)
