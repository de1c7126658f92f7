"""Verification by membership in what the target finds likely."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch

from talkahead.speculation import native_walk
from talkahead.speculation.contracts import AcceptCall, Accepted, Context, Preserves, Scored
from talkahead.speculation.longest_path import accept_longest
from talkahead.speculation.plain_step import accept_root
from talkahead.speculation.sampling import draw_several
from talkahead.speculation.target_tokens import TargetTokens
from talkahead.speculation.token_tree import TokenTree
from talkahead.speculation.verifier_options import VerifierOptions


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
        if tree.shape.is_root_alone:
            return accept_root(tree, scored, context)
        accepted = native_walk.longest(tree, scored, context, **self._limits)
        return self.accept_in_torch(tree, scored, context) if accepted is None else accepted

    def call(self, tree: TokenTree, scored: Scored, context: Context) -> AcceptCall | None:
        return native_walk.longest_call(tree, scored, context, **self._limits)

    @property
    def _limits(self) -> dict[str, int]:
        return {"trials": 1, "top_k": self.top_k, "eos_top_k": self.eos_top_k, "eos": self.eos}

    def accept_in_torch(self, tree: TokenTree, scored: Scored, context: Context) -> Accepted:
        """What `accept` does, on any device and in any precision."""
        tokens, shape = tree.ids, tree.shape.on(tree.tokens.device)
        positions = context.positions[:, None] + shape.depth_row + 1
        draws = draw_several(scored.logits, context.settings, context.keys[:, None], positions)
        behind_parents = scored.logits[:, shape.parent_row]
        own = behind_parents.gather(2, tokens[..., None])
        ranks = (behind_parents > own).sum(dim=2)
        has_passed = ranks < torch.where(tokens == self.eos, self.eos_top_k, self.top_k)
        return accept_longest(tree, scored, context, draws, has_passed, self.eos)
