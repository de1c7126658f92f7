"""Verification by membership in what the target finds likely."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from talkahead.speculation import native_walk
from talkahead.speculation.contracts import AcceptCall, Accepted, Context, Preserves, Scored
from talkahead.speculation.passing import Passing
from talkahead.speculation.target_tokens import TargetTokens
from talkahead.speculation.token_tree import TokenTree
from talkahead.speculation.verifier_options import VerifierOptions
from talkahead.speculation.walk import walk_of


@dataclass(frozen=True)
class TopkVerifier:
    """A node is accepted when it is among the target's `top_k` best tokens after its parent.

    Tian et al. 2025, algorithm 1; the end of speech must be among the best `eos_top_k`. The next root is
    drawn as in plain decoding. Of a tree, the longest path is taken. One codebook (C = 1).
    """

    preserves = Preserves.NOTHING
    history_frames = 0
    trials = 0

    top_k: int
    eos_top_k: int
    eos: int

    @classmethod
    def of(cls, options: VerifierOptions, target: TargetTokens) -> Self:
        return cls(options.top_k_verify, options.eos_top_k, target.eos)

    def accept(self, tree: TokenTree, scored: Scored, context: Context) -> Accepted:
        return walk_of(scored).longest(tree, scored, context, self.passing)

    def call(self, tree: TokenTree, scored: Scored, context: Context) -> AcceptCall:
        return native_walk.longest_call(tree, scored, context, self.passing)

    @property
    def passing(self) -> Passing:
        return Passing(self.eos, top_k=self.top_k, eos_top_k=self.eos_top_k)
