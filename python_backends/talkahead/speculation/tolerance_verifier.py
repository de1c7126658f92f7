"""Verification that lets the target draw several times."""

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
class ToleranceVerifier:
    """A node is accepted when it is among `tolerance` draws after its parent; the longest path is taken.

    Li et al. 2025, section II-C. The first draw is that of plain decoding, and the next root: a tolerance of
    1 is `match`. One codebook (C = 1).
    """

    preserves = Preserves.NOTHING
    history_frames = 0

    trials: int
    eos: int

    @classmethod
    def of(cls, options: VerifierOptions, target: TargetTokens) -> Self:
        return cls(options.tolerance, target.eos)

    def accept(self, tree: TokenTree, scored: Scored, context: Context) -> Accepted:
        return walk_of(scored).longest(tree, scored, context, self.passing)

    def call(self, tree: TokenTree, scored: Scored, context: Context) -> AcceptCall:
        return native_walk.longest_call(tree, scored, context, self.passing)

    @property
    def passing(self) -> Passing:
        return Passing(self.eos, self.trials)
