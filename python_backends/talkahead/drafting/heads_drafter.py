"""Drafts of heads on the target's last hidden state: a calibrated tree of the tokens likeliest to be drawn.

Shapes: S running rows, N nodes, D hidden size, V vocabulary; of one depth of the tree E nodes that have
children and M of these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from talkahead.drafting.draft_heads import DraftHeads
from talkahead.drafting.likely_draws import likely_draws
from talkahead.drafting.native_heads import NativeHeads
from talkahead.drafting.rank_paths import RankTree
from talkahead.speculation.contracts import Context, DraftCalls, DraftRequest
from talkahead.speculation.draws import trial_streams
from talkahead.speculation.null_drafter import NullDrafter
from talkahead.speculation.token_tree import TokenTree


class HeadsDrafter(NullDrafter):
    """Fills the tree with the tokens likeliest to be drawn after each of its nodes, the end of speech among
    them (`likely_draws`). Keeps nothing between steps: it looks at the root, the hidden state that drew it,
    and the noise of the draws to come.

    Args:
        tree: its depth is at most the number of heads.
        native: the same heads in C, where they run.
    """

    def __init__(self, heads: DraftHeads, tree: RankTree, native: NativeHeads | None = None) -> None:
        tree = tree.by_depth
        self._heads = heads
        self._shape = tree.shape
        self._levels = tuple(level.to(heads.device) for level in tree.levels)
        if len(self._levels) > len(heads):
            raise ValueError(
                f"a tree of depth {len(self._levels)} needs as many heads; there are {len(heads)}"
            )
        self._native = native.tree(self._levels) if native and self._levels else None

    def propose(self, context: Context) -> TokenTree:
        if not self._levels:
            return super().propose(context)
        if self._native is None:
            return TokenTree(self.grow_in_torch(context)[..., None], self._shape)
        tokens = self._native.grow(context)
        return context.keep((self, "tree"), lambda: TokenTree(tokens[..., None], self._shape))

    def calls(self, context: Context) -> DraftCalls | None:
        if not self._levels or context.draft_request.nodes == 1:
            return DraftCalls(context.roots_alone)
        if self._native is None:
            return None
        grow, tokens = self._native.call(context)
        return DraftCalls(TokenTree(tokens[..., None], self._shape), (grow,))

    def grow_in_torch(self, context: Context) -> Tensor:
        """int64 [S, N], the root first."""
        heads, found = self._heads, [context.roots_alone.ids]
        streams = trial_streams(context.keys, context.draft_request.trials)
        seen = heads.begin(context.hidden[:, None], found[0])
        for index, level in enumerate(self._levels):
            states = heads.states(seen, index)
            places = (context.positions + index + 1)[:, None].expand(states.shape[:2])
            guesses = heads.guesses(states, index)
            best = likely_draws(guesses, context.settings, streams, places, level.width)
            tokens = best[:, level.parents, level.ranks]
            found.append(tokens)
            above = level.parents[level.grown]
            seen = heads.onward(seen[:, above], states[:, above], tokens[:, level.grown])
        return torch.cat(found, dim=1)


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
