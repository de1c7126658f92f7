"""Verification that verifies nothing: what a draft is worth alone. Offline, to show what checking saves."""

from __future__ import annotations

from talkahead.speculation.contracts import Accepted, Context, Preserves, Scored
from talkahead.speculation.sampling import draw
from talkahead.speculation.token_tree import TokenTree


class AcceptAllVerifier:
    """Every drafted token is spoken, the end of speech as well; the target draws what follows the last.

    The ablation "without verification" of Tian et al. 2025, section V. For chains. One codebook (C = 1).
    """

    preserves = Preserves.NOTHING
    history_frames = 0
    trials = 0

    def accept(self, tree: TokenTree, scored: Scored, context: Context) -> Accepted:
        if not tree.shape.is_chain:
            raise ValueError("of a tree, only one path can be spoken: accept all needs a chain")
        counts = context.positions * 0 + tree.num_nodes
        path = tree.shape.depth_row.to(counts.device).expand(tree.num_rows, -1)
        after = (context.positions + counts)[:, None]
        return Accepted(path, counts, draw(scored.logits[:, -1:], context.settings, context.keys, after))

    def call(self, tree: TokenTree, scored: Scored, context: Context) -> None:
        """None: it is Python."""
        return None
