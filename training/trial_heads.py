"""Draft heads on what the talker said by itself, trained as quickly as a trial needs them."""

from __future__ import annotations

import torch
from talkahead.drafting.draft_heads import DraftHeads
from torch import Tensor
from torch.nn import functional

from instruments.draft_ranks import IGNORE, seen_tokens
from training.schedule import Schedule

_DECAY = 0.8
_BATCH = 2_048


def train_heads(heads: DraftHeads, hidden: Tensor, said: Tensor, steps: int, rate: float, seed: int) -> None:
    """Cross entropy of every head, the i-th weighted by 0.8^i (from 1).

    Args:
        hidden, said: as `draft_ranks.positions` gives them.
    """
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(heads.parameters(), lr=rate, betas=(0.9, 0.98), weight_decay=0.01)
    weights = _DECAY ** torch.arange(1.0, said.shape[1])
    schedule = Schedule(rate, steps, warm_up=20, decay=0.5)
    for step in range(steps):
        schedule.apply(optimizer, step)
        chosen = torch.randint(len(hidden), (_BATCH,), generator=generator)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = heads(hidden[chosen], seen_tokens(said[chosen]))
        losses = functional.cross_entropy(
            logits.float().transpose(1, 2), said[chosen, 1:], ignore_index=IGNORE, reduction="none"
        )
        optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward((losses.mean(0) * weights).sum())
        optimizer.step()
