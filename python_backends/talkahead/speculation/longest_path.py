"""The longest path of a tree whose nodes pass a test each, for verifiers that do not promise a distribution.

Shapes: B rows, N nodes, V vocabulary, M nodes of a path at most.
"""

from __future__ import annotations

import torch
from torch import Tensor

from talkahead.speculation.contracts import Accepted, Context, Scored
from talkahead.speculation.draws import trial_streams
from talkahead.speculation.passing import Passing
from talkahead.speculation.sampling import Draws, draw_several
from talkahead.speculation.token_tree import TokenTree


def accept_longest(tree: TokenTree, scored: Scored, context: Context, passing: Passing) -> Accepted:
    """See `Walk.longest`."""
    draws = draws_of(tree, scored, context, passing.trials)
    has_passed = _among_best(tree, scored, passing) if passing.top_k else among_draws(tree, draws)
    shape = tree.shape.on(has_passed.device)
    paths, depths = shape.paths, shape.depth_row
    is_reached = reached(tree, has_passed, passing.eos)
    log_likelihoods = _log_likelihoods(tree, scored, context, draws)
    log_likelihoods[:, 0] = 0.0
    on_path = paths >= 0
    likelihoods = torch.where(on_path, log_likelihoods[:, paths.clamp_min(0)], 0.0).sum(dim=2)
    lengths = torch.where(is_reached, depths, -1)
    is_longest = lengths == lengths.max(dim=1, keepdim=True).values
    last = torch.where(is_longest, likelihoods, -torch.inf).argmax(dim=1)
    rows = torch.arange(tree.num_rows, device=last.device)
    return Accepted(paths[last].clamp_min(0), depths[last] + 1, draws.tokens[rows, last, :1])


def draws_of(tree: TokenTree, scored: Scored, context: Context, trials: int) -> Draws:
    """So many after each node; the first one is that of plain decoding."""
    positions = context.positions[:, None] + tree.shape.on(scored.logits.device).depth_row + 1
    return draw_several(scored.logits, context.settings, trial_streams(context.keys, trials), positions)


def among_draws(tree: TokenTree, draws: Draws) -> Tensor:
    """Which nodes are among the draws after their parents, bool [B, N]."""
    drawn = draws.tokens[:, tree.shape.on(draws.tokens.device).parent_row]
    return (drawn == tree.ids[..., None]).any(dim=2)


def _among_best(tree: TokenTree, scored: Scored, passing: Passing) -> Tensor:
    """Which nodes are among the target's likeliest tokens after their parents, bool [B, N]."""
    after_parents = scored.logits[:, tree.shape.on(scored.logits.device).parent_row]
    own = after_parents.gather(2, tree.ids[..., None])
    ranks = (after_parents > own).sum(dim=2)
    return ranks < torch.where(tree.ids == passing.eos, passing.eos_top_k, passing.top_k)


def reached(tree: TokenTree, has_passed: Tensor, eos: int) -> Tensor:
    """Which nodes have passed with all above them, bool [B, N]; nothing after the end of speech."""
    paths = tree.shape.on(has_passed.device).paths
    ends = tree.ids == eos
    is_open = has_passed & ~_of_parents(tree, ends)
    is_open[:, 0] = True
    return (is_open[:, paths.clamp_min(0)] | (paths < 0)).all(dim=2)


def _of_parents(tree: TokenTree, values: Tensor) -> Tensor:
    """Each node's parent's value, [B, N]; the root's own."""
    return values[:, tree.shape.on(values.device).parent_row]


def _log_likelihoods(tree: TokenTree, scored: Scored, context: Context, draws: Draws) -> Tensor:
    """log q of each node after its parent, float64 [B, N]; of the root, anything.

    Outside top-k and top-p it goes on as if the token were inside.
    """
    parents = tree.shape.on(scored.logits.device).parent_row
    rows = torch.arange(tree.num_rows, device=parents.device)[:, None]
    logits = scored.logits[rows, parents, tree.ids].to(torch.float64)
    return logits * context.settings.sharpness[:, None] - draws.log_norms[:, parents]
