"""Heads with a tree for every size that a step may want."""

from __future__ import annotations

from collections.abc import Iterable

from talkahead.drafting.draft_heads import DraftHeads
from talkahead.drafting.heads_drafter import HeadsDrafter
from talkahead.drafting.native_heads import NativeHeads
from talkahead.speculation.contracts import Context
from talkahead.speculation.null_drafter import NullDrafter
from talkahead.speculation.rank_paths import RankTree
from talkahead.speculation.token_tree import TokenTree


class SizedHeadsDrafter(NullDrafter):
    """Fills the largest of its trees that a step has room for; without any, the root stays alone."""

    def __init__(
        self, heads: DraftHeads, trees: Iterable[RankTree], native: NativeHeads | None = None
    ) -> None:
        drafters = ((len(tree.shape), HeadsDrafter(heads, tree, native)) for tree in trees)
        self._by_size = sorted(drafters, key=lambda one: one[0])

    def propose(self, context: Context) -> TokenTree:
        most = context.wish.nodes
        fitting = [drafter for size, drafter in self._by_size if most is None or size <= most]
        return fitting[-1].propose(context) if fitting else super().propose(context)
