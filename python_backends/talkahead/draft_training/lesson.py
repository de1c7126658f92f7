"""What drafts learn from: a talker's hidden states, and the tokens that were drawn from them.

Shapes: B utterances, T places (frames and the end of speech) of the longest, P prompt rows, D hidden size.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

IGNORE = -100


@dataclass(frozen=True)
class Lesson:
    """Utterances as the talker sees them.

    Args:
        rows: [B, P + T - 1, D], each one's prompt and then its frames, embedded, without a gap; only draft
            models look at them.
        starts: int64 [B], the row whose hidden state draws the first frame.
        hidden: [B, T, D], the talker's; hidden[:, t] draws tokens[:, t].
        tokens: int64 [B, T], frames and the end of speech, then IGNORE.
    """

    rows: Tensor
    starts: Tensor
    hidden: Tensor
    tokens: Tensor

    @property
    def known(self) -> Tensor:
        """`tokens` with something harmless after the end."""
        return self.tokens.clamp_min(0)


def drawing(states: Tensor, starts: Tensor, count: int) -> Tensor:
    """Of states at every row, [B, P + T - 1, D], those that draw the tokens, [B, count, D]."""
    places = (starts[:, None] + torch.arange(count, device=starts.device)).clamp_max(states.shape[1] - 1)
    return states.gather(1, places[..., None].expand(-1, -1, states.shape[2]))
