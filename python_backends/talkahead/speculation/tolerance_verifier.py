"""Verification that lets the target draw several times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from torch import Tensor

from talkahead.speculation import native_walk
from talkahead.speculation.contracts import AcceptCall, Accepted, Context, Preserves, Scored
from talkahead.speculation.draws import trial_streams
from talkahead.speculation.longest_path import accept_longest
from talkahead.speculation.plain_step import accept_root
from talkahead.speculation.sampling import Draws, draw_several
from talkahead.speculation.target_tokens import TargetTokens
from talkahead.speculation.token_tree import TokenTree
from talkahead.speculation.verifier_options import VerifierOptions


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
        if tree.shape.is_root_alone:
            return accept_root(tree, scored, context)
        accepted = native_walk.longest(tree, scored, context, **self._limits)
        return self.accept_in_torch(tree, scored, context) if accepted is None else accepted

    def call(self, tree: TokenTree, scored: Scored, context: Context) -> AcceptCall | None:
        return native_walk.longest_call(tree, scored, context, **self._limits)

    @property
    def _limits(self) -> dict[str, int]:
        return {"trials": self.trials, "top_k": 0, "eos_top_k": 0, "eos": self.eos}

    def accept_in_torch(self, tree: TokenTree, scored: Scored, context: Context) -> Accepted:
        """What `accept` does, on any device and in any precision."""
        draws, has_passed = self.passed(tree, scored, context)
        return accept_longest(tree, scored, context, draws, has_passed, self.eos)

    def passed(self, tree: TokenTree, scored: Scored, context: Context) -> tuple[Draws, Tensor]:
        """The draws after each node, and which nodes are among those after their parents, bool [B, N]."""
        shape = tree.shape.on(scored.logits.device)
        positions = context.positions[:, None] + shape.depth_row + 1
        streams = trial_streams(context.keys, self.trials)
        draws = draw_several(scored.logits, context.settings, streams, positions)
        behind_parents = draws.tokens[:, shape.parent_row]
        return draws, (behind_parents == tree.ids[..., None]).any(dim=2)
