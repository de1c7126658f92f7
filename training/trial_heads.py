"""Draft heads on what the talker said by itself: trained as quickly as a trial needs them, and their ranks.

Shapes: M positions, K heads, D hidden size, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from talkahead.drafting.draft_heads import DraftHeads
from torch import Tensor
from torch.nn import functional

from training.own_speech import Utterance
from training.schedule import Schedule

CANDIDATES = 10
"""Tokens of each head that a tree may use."""
_IGNORE = -100
_DECAY = 0.8
_BATCH = 2_048


def positions(utterances: Sequence[Utterance], num_heads: int) -> tuple[Tensor, Tensor, Tensor]:
    """Hidden states [M, D], the tokens [M] that they drew, and those that each one's heads should say,
    [M, K], -100 behind the end.
    """
    hidden, roots, wanted = [], [], []
    for utterance in utterances:
        states = torch.stack(utterance.hidden)
        behind = torch.full((num_heads,), _IGNORE)
        tokens = torch.cat([torch.tensor(utterance.tokens), behind])
        hidden.append(states)
        roots.append(tokens[: len(states)])
        wanted.append(tokens.unfold(0, num_heads, 1)[1 : len(states) + 1])
    return torch.cat(hidden), torch.cat(roots), torch.cat(wanted)


def train_heads(
    heads: DraftHeads, hidden: Tensor, roots: Tensor, wanted: Tensor, steps: int, rate: float, seed: int
) -> None:
    """Cross entropy of every head, the i-th weighted by 0.8^i (from 1)."""
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(heads.parameters(), lr=rate, betas=(0.9, 0.98), weight_decay=0.01)
    weights = _DECAY ** torch.arange(1.0, wanted.shape[1] + 1)
    schedule = Schedule(rate, steps, warm_up=20, decay=0.5)
    for step in range(steps):
        schedule.apply(optimizer, step)
        chosen = torch.randint(len(hidden), (_BATCH,), generator=generator)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = heads(hidden[chosen], roots[chosen])
        losses = functional.cross_entropy(
            logits.float().transpose(1, 2), wanted[chosen], ignore_index=_IGNORE, reduction="none"
        )
        optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward((losses.mean(0) * weights).sum())
        optimizer.step()


@torch.inference_mode()
def ranks(heads: DraftHeads, hidden: Tensor, roots: Tensor, wanted: Tensor) -> Tensor:
    """Place of each wanted token among its head's guesses, from 0, int64 [M, K]; V behind the end."""
    found = []
    pieces = (torch.split(one, _BATCH) for one in (hidden, roots, wanted))
    for states, drawn, tokens in zip(*pieces, strict=True):
        logits = heads(states, drawn)
        own = logits.gather(2, tokens.clamp_min(0)[..., None])
        places = (logits > own).sum(2)
        found.append(torch.where(tokens == _IGNORE, logits.shape[2], places))
    return torch.cat(found)
