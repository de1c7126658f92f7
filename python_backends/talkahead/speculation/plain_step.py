"""A step over the root alone: plain decoding, whatever the verifier."""

from __future__ import annotations

import torch

from talkahead.speculation import native_walk
from talkahead.speculation.contracts import Accepted, Context, Scored
from talkahead.speculation.sampling import draw
from talkahead.speculation.token_tree import TokenTree


def accept_root(tree: TokenTree, scored: Scored, context: Context) -> Accepted:
    """The root, and the token drawn behind it."""
    accepted = native_walk.match(tree, scored, context)
    return accept_root_in_torch(scored, context) if accepted is None else accepted


def accept_root_in_torch(scored: Scored, context: Context) -> Accepted:
    """What `accept_root` does, on any device and in any precision."""
    drawn = draw(scored.logits, context.settings, context.keys, context.positions[:, None] + 1)
    return Accepted(torch.zeros_like(drawn), torch.ones_like(context.positions), drawn)
