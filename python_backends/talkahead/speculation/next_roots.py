"""From the roots of a step to those of the next, along the paths that were accepted.

Shapes: B rows, N nodes, M nodes of a path at most, C codebooks, D hidden size.
"""

from __future__ import annotations

import torch
from torch import Tensor

from talkahead.speculation import native_walk
from talkahead.speculation.contracts import Accepted, Context, Scored
from talkahead.speculation.token_tree import TokenTree


def advance_rows(tree: TokenTree, scored: Scored, accepted: Accepted, context: Context) -> Tensor:
    """Bring the context's rows to the end of their paths: next roots, positions, hidden states.

    Returns the tokens [B, M, C] behind the former roots, the next root last; beyond a row's count anything.
    """
    tokens = native_walk.advance_rows(tree, scored, accepted, context)
    return advance_rows_in_torch(tree, scored, accepted, context) if tokens is None else tokens


def advance_rows_in_torch(tree: TokenTree, scored: Scored, accepted: Accepted, context: Context) -> Tensor:
    """What `advance_rows` does, on any device and in any precision."""
    lines = torch.arange(tree.num_rows, device=accepted.path.device)
    last = accepted.counts - 1
    tokens = tree.tokens[lines[:, None], accepted.path].roll(-1, dims=1)
    tokens[lines, last] = accepted.next_roots
    context.hidden.copy_(scored.hidden[lines, accepted.path[lines, last]])
    context.roots.copy_(accepted.next_roots)
    context.positions.add_(accepted.counts)
    return tokens
