"""Walks over trees in tensors, on any device and in any precision: `walk.Walk`, whatever looks at all nodes.

Shapes: B rows, N nodes, M nodes of a path at most, C codebooks.
"""

from __future__ import annotations

import torch
from torch import Tensor

from talkahead.speculation.contracts import Accepted, Context, Scored
from talkahead.speculation.longest_path import accept_longest
from talkahead.speculation.passing import Passing
from talkahead.speculation.rejection import Rejection
from talkahead.speculation.sampling import draw
from talkahead.speculation.similarity_groups import SimilarityGroups
from talkahead.speculation.token_tree import TokenTree


def match(tree: TokenTree, scored: Scored, context: Context) -> Accepted:
    """See `Walk.match`."""
    depths = tree.shape.on(tree.tokens.device).depth_row
    return follow(
        tree, draw(scored.logits, context.settings, context.keys, context.positions[:, None] + depths + 1)
    )


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


def longest(tree: TokenTree, scored: Scored, context: Context, passing: Passing) -> Accepted:
    """See `Walk.longest`."""
    if tree.shape.is_root_alone:
        return match(tree, scored, context)
    return accept_longest(tree, scored, context, passing)


def ratio(
    tree: TokenTree,
    scored: Scored,
    context: Context,
    groups: SimilarityGroups | None = None,
    bias: float = 0.0,
) -> Accepted:
    """See `Walk.ratio`."""
    if tree.shape.is_root_alone:
        return match(tree, scored, context)
    return Rejection(tree, scored, context, groups, bias).run()


def advance_rows(tree: TokenTree, scored: Scored, accepted: Accepted, context: Context) -> Tensor:
    """See `Walk.advance_rows`."""
    lines = torch.arange(tree.num_rows, device=accepted.path.device)
    last = accepted.counts - 1
    tokens = tree.tokens[lines[:, None], accepted.path].roll(-1, dims=1)
    tokens[lines, last] = accepted.next_roots
    context.hidden.copy_(scored.hidden[lines, accepted.path[lines, last]])
    context.roots.copy_(accepted.next_roots)
    context.positions.add_(accepted.counts)
    return tokens
