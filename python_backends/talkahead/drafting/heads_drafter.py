"""Drafts of heads on the target's last hidden state: a calibrated tree of their best tokens.

Shapes: S running rows, N nodes, D hidden size, V vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor

from talkahead.backbone.native_heads import NativeHeads
from talkahead.drafting.draft_heads import DraftHeads
from talkahead.speculation.contracts import Context
from talkahead.speculation.null_drafter import NullDrafter
from talkahead.speculation.rank_paths import RankTree
from talkahead.speculation.token_tree import TokenTree


class HeadsDrafter(NullDrafter):
    """Fills the tree with each head's best tokens, the end of speech among them. Keeps nothing between steps:
    all that it looks at is the root and the hidden state that drew it.

    Args:
        tree: its depth is at most the number of heads.
        native: the same heads in C, where they run.
        told: what `heads.told` says, if it is known already.
    """

    def __init__(
        self,
        heads: DraftHeads,
        tree: RankTree,
        native: NativeHeads | None = None,
        told: Tensor | None = None,
    ) -> None:
        paths = tree.paths
        depth = max((len(path) for path in paths), default=0)
        if depth > len(heads):
            raise ValueError(f"a tree of depth {depth} needs as many heads; there are {len(heads)}")
        self._heads = heads
        self._native = native
        self._told = heads.told() if told is None else told
        self._depth = depth
        self._shape = tree.shape
        widths = [1 + max(path[-1] for path in paths if len(path) == level + 1) for level in range(depth)]
        self._widths = torch.tensor(widths, dtype=torch.int64)
        firsts = [sum(widths[:level]) for level in range(depth)]
        places = [firsts[len(path) - 1] + path[-1] for path in paths]
        device = next(heads.parameters()).device
        self._places = torch.tensor(places, dtype=torch.int64, device=device)

    def propose(self, context: Context) -> TokenTree:
        if not self._depth:
            return super().propose(context)
        nodes = self._best(self._seen(context)).index_select(1, self._places)
        return TokenTree(torch.cat([context.roots, nodes], dim=1)[..., None], self._shape)

    def _seen(self, context: Context) -> Tensor:
        """[S, D], as `DraftHeads.seen`."""
        if self._told is None:
            return context.hidden
        return context.hidden + self._told.index_select(0, context.roots[:, 0])

    def _best(self, seen: Tensor) -> Tensor:
        """int64 [S, sum of widths]: the best tokens of each level's head."""
        if self._native is not None:
            return self._native.best(seen, self._widths)
        widths = self._widths.tolist()
        guesses = (self._heads.guesses(seen, level) for level in range(self._depth))
        best = [torch.topk(one, width).indices for one, width in zip(guesses, widths, strict=True)]
        return torch.cat(best, dim=1)
