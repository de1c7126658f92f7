"""Heads with a tree for every size that a step may want."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from talkahead.drafting.draft_heads import DraftHeads
from talkahead.drafting.heads_drafter import HeadsDrafter
from talkahead.drafting.native_heads import NativeHeads
from talkahead.drafting.rank_paths import RankTree
from talkahead.speculation.contracts import Context, DraftCalls, DraftRequest
from talkahead.speculation.null_drafter import NullDrafter
from talkahead.speculation.token_tree import TokenTree


class SizedHeadsDrafter(NullDrafter):
    """Fills the largest of its trees that a step has room for; without any, the root stays alone.

    Args:
        trees: for verifiers that look at one draw.
        tolerant: for those that look at so many, or more.
    """

    def __init__(
        self,
        heads: DraftHeads,
        trees: Iterable[RankTree],
        native: NativeHeads | None = None,
        tolerant: Mapping[int, Iterable[RankTree]] | None = None,
    ) -> None:
        self._by_trials = {
            trials: sorted(
                ((len(tree.shape), HeadsDrafter(heads, tree, native)) for tree in own), key=lambda one: one[0]
            )
            for trials, own in {0: trees, **(tolerant or {})}.items()
        }

    def propose(self, context: Context) -> TokenTree:
        fitting = self._fitting(context.draft_request)
        return fitting[-1].propose(context) if fitting else super().propose(context)

    def calls(self, context: Context) -> DraftCalls | None:
        fitting = self._fitting(context.draft_request)
        return fitting[-1].calls(context) if fitting else DraftCalls(context.roots_alone)

    def _fitting(self, request: DraftRequest) -> list[HeadsDrafter]:
        """Those whose trees a step has room for, the largest last."""
        trees = self._by_trials[max(trials for trials in self._by_trials if trials <= request.trials)]
        return [drafter for size, drafter in trees if request.nodes is None or size <= request.nodes]
