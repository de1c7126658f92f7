"""Drafts of heads on the target's last hidden state: a calibrated tree of the tokens likeliest to be drawn.

Shapes: S running rows, N nodes, D hidden size, V vocabulary; of one depth of the tree E nodes that have
children and M of these.
"""

from __future__ import annotations

import torch
from torch import Tensor

from talkahead.drafting.draft_heads import DraftHeads
from talkahead.drafting.likely_draws import likely_draws
from talkahead.drafting.native_heads import NativeHeads
from talkahead.drafting.rank_paths import RankTree
from talkahead.speculation.contracts import Context, DraftCalls
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
