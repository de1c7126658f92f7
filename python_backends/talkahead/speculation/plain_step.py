"""A step over the root alone: plain decoding, whatever the verifier."""

from __future__ import annotations

import torch

from talkahead.speculation.contracts import Accepted, Context, Scored
from talkahead.speculation.sampling import draw


def accept_root(scored: Scored, context: Context) -> Accepted:
    """The root, and the token drawn behind it."""
    drawn = draw(scored.logits, context.settings, context.keys, context.positions[:, None] + 1)
    return Accepted(torch.zeros_like(drawn), torch.ones_like(context.positions), drawn)
