"""What drafts learn from: a talker's hidden states, and the tokens that were drawn from them.

Shapes: B utterances, T places (frames and the end of speech) of the longest, P prompt rows, D hidden size,
K likeliest tokens, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

IGNORE = -100
_LIKELIEST = 64
"""Tokens, which have 0.997 of the shipped talker's odds on the average (32 have 0.995, 128 have 0.998)."""


@dataclass(frozen=True)
class Likely:
    """A talker's likeliest tokens, each place's K.

    Args:
        tokens: int32 [..., K], of a place each another one.
        odds: float [..., K], at temperature 1, as if there were no other tokens.
    """

    tokens: Tensor
    odds: Tensor

    @classmethod
    def of(cls, logits: Tensor) -> Self:
        """Of [..., V]."""
        best, tokens = logits.float().topk(min(_LIKELIEST, logits.shape[-1]), sorted=False)
        return cls(tokens.int(), best.softmax(-1))


@dataclass(frozen=True)
class Lesson:
    """Utterances as the talker sees them.

    Args:
        rows: [B, P + T - 1, D], each one's prompt and then its frames, embedded, without a gap; only draft
            models look at them.
        starts: int64 [B], the row whose hidden state draws the first frame.
        hidden: [B, T, D], the talker's; hidden[:, t] draws tokens[:, t].
        tokens: int64 [B, T], frames and the end of speech, then IGNORE.
        likely: [B, T, K], what else hidden might have drawn; None where nobody asks.
    """

    rows: Tensor
    starts: Tensor
    hidden: Tensor
    tokens: Tensor
    likely: Likely | None = None

    @property
    def known(self) -> Tensor:
        """`tokens` with something harmless after the end."""
        return self.tokens.clamp_min(0)


def drawing(states: Tensor, starts: Tensor, count: int) -> Tensor:
    """Of states at every row, [B, P + T - 1, D], those that draw the tokens, [B, count, D]."""
    places = (starts[:, None] + torch.arange(count, device=starts.device)).clamp_max(states.shape[1] - 1)
    return states.gather(1, places[..., None].expand(-1, -1, states.shape[2]))
