"""Verification by equality: a node is accepted when it is what plain decoding would have drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from talkahead.speculation import native_walk
from talkahead.speculation.contracts import AcceptCall, Accepted, Context, Preserves, Scored
from talkahead.speculation.plain_step import accept_root
from talkahead.speculation.sampling import draw
from talkahead.speculation.target_tokens import TargetTokens
from talkahead.speculation.token_tree import TokenTree
from talkahead.speculation.verifier_options import VerifierOptions


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
        if tree.shape.is_root_alone:
            return accept_root(tree, scored, context)
        accepted = native_walk.match(tree, scored, context)
        return self.accept_in_torch(tree, scored, context) if accepted is None else accepted

    def call(self, tree: TokenTree, scored: Scored, context: Context) -> AcceptCall | None:
        return native_walk.match_call(tree, scored, context)

    def accept_in_torch(self, tree: TokenTree, scored: Scored, context: Context) -> Accepted:
        """What `accept` does, on any device and in any precision."""
        depths = tree.shape.on(tree.tokens.device).depth_row
        positions = context.positions[:, None] + depths + 1
        drawn = draw(scored.logits, context.settings, context.keys, positions)
        return follow(tree, drawn)


def follow(tree: TokenTree, drawn: Tensor) -> Accepted:
    """Walk from the root to the child that equals the token drawn after its parent, as far as there is one.

    Args:
        drawn: int64 [B, N], the token that follows each node.
    """
    rows = torch.arange(tree.num_rows, device=drawn.device)
    last = torch.zeros_like(rows)
    for level in tree.shape.levels[1:]:
        here = last.clone()
        # Backwards, so that of two equal siblings the first one wins.
        for node in reversed(level):
            parent = tree.shape.parents[node]
            wanted = (here == parent) & (tree.ids[:, node] == drawn[:, parent])
            last = torch.where(wanted, node, last)
    shape = tree.shape.on(drawn.device)
    return Accepted(shape.paths[last].clamp_min(0), shape.depth_row[last] + 1, drawn[rows, last][:, None])
