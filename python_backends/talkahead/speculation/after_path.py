"""What an accepted path adds to each row.

Shapes: B rows, N nodes, M nodes of a path at most, D hidden size.
"""

from __future__ import annotations

import torch
from torch import Tensor

from talkahead.speculation import native_walk
from talkahead.speculation.contracts import Accepted, Scored
from talkahead.speculation.token_tree import TokenTree


def after_path(tree: TokenTree, scored: Scored, accepted: Accepted) -> tuple[Tensor, Tensor]:
    """The tokens [B, M] behind the root, the next root last, and the hidden state [B, D] at the path's end.

    Beyond a row's count, tokens are anything.
    """
    if tree.shape.is_root_alone:
        return accepted.next_roots, scored.hidden[:, 0]
    found = native_walk.advance(tree, scored, accepted)
    return after_path_in_torch(tree, scored, accepted) if found is None else found


def after_path_in_torch(tree: TokenTree, scored: Scored, accepted: Accepted) -> tuple[Tensor, Tensor]:
    """What `after_path` does, on any device and in any precision."""
    lines = torch.arange(tree.num_rows, device=accepted.path.device)
    last = accepted.counts - 1
    tokens = tree.tokens[lines[:, None], accepted.path, 0].roll(-1, dims=1)
    tokens[lines, last] = accepted.next_roots[:, 0]
    return tokens, scored.hidden[lines, accepted.path[lines, last]]
