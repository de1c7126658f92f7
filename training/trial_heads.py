"""Draft heads, as quick as a trial needs them: enough to compare shapes of talkers.

Heads after Medusa (Cai et al. 2024) and its use for speech (Li et al. 2025).

Shapes: M positions, B rows, N nodes, K heads, D hidden size, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from talkahead.speculation.contracts import Context
from talkahead.speculation.null_drafter import NullDrafter
from talkahead.speculation.rank_paths import RankTree
from talkahead.speculation.token_tree import TokenTree
from torch import Tensor, nn
from torch.nn import functional

from training.own_speech import Utterance
from training.schedule import Schedule

CANDIDATES = 10
"""Tokens of each head that a tree may use."""
_IGNORE = -100
_DECAY = 0.8
_BATCH = 2_048


class DraftHeads(nn.Module):
    """K heads: a residual block with SiLU, then a linear layer to the vocabulary. [M, D] -> [M, K, V].

    Head i, from 1, guesses the i-th token behind the one that the hidden state drew. At first each guesses as
    the target's own head would.
    """

    def __init__(self, head: Tensor, num_heads: int) -> None:
        super().__init__()
        vocabulary, width = head.shape
        self.blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(num_heads))
        self.heads = nn.ModuleList(nn.Linear(width, vocabulary, bias=False) for _ in range(num_heads))
        nothing = {"weight": torch.zeros(width, width), "bias": torch.zeros(width)}
        for block, own in zip(self.blocks, self.heads, strict=True):
            block.load_state_dict(nothing)
            own.load_state_dict({"weight": head})

    def forward(self, hidden: Tensor) -> Tensor:
        guesses = [
            head(hidden + functional.silu(block(hidden)))
            for block, head in zip(self.blocks, self.heads, strict=True)
        ]
        return torch.stack(guesses, dim=1)


def positions(utterances: Sequence[Utterance], num_heads: int) -> tuple[Tensor, Tensor]:
    """Hidden states [M, D], and the tokens that each one's heads should say, [M, K], -100 behind the end."""
    hidden, wanted = [], []
    for utterance in utterances:
        states = torch.stack(utterance.hidden)
        behind = torch.full((num_heads,), _IGNORE)
        tokens = torch.cat([torch.tensor(utterance.tokens), behind])
        hidden.append(states)
        wanted.append(tokens.unfold(0, num_heads, 1)[1 : len(states) + 1])
    return torch.cat(hidden), torch.cat(wanted)


def train_heads(
    heads: DraftHeads, hidden: Tensor, wanted: Tensor, steps: int, rate: float, seed: int
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
            logits = heads(hidden[chosen])
        losses = functional.cross_entropy(
            logits.float().transpose(1, 2), wanted[chosen], ignore_index=_IGNORE, reduction="none"
        )
        optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward((losses.mean(0) * weights).sum())
        optimizer.step()


@torch.inference_mode()
def ranks(heads: DraftHeads, hidden: Tensor, wanted: Tensor) -> Tensor:
    """Place of each wanted token among its head's guesses, from 0, int64 [M, K]; V behind the end."""
    found = []
    for states, tokens in zip(torch.split(hidden, _BATCH), torch.split(wanted, _BATCH), strict=True):
        logits = heads(states)
        own = logits.gather(2, tokens.clamp_min(0)[..., None])
        places = (logits > own).sum(2)
        found.append(torch.where(tokens == _IGNORE, logits.shape[2], places))
    return torch.cat(found)


class HeadsDrafter(NullDrafter):
    """Fills a calibrated tree with each head's best tokens; keeps nothing between steps."""

    def __init__(self, heads: DraftHeads, tree: RankTree) -> None:
        self._heads = heads
        self._shape = tree.shape
        self._depths = torch.tensor([len(path) - 1 for path in tree.paths])
        self._ranks = torch.tensor([path[-1] for path in tree.paths])

    def propose(self, context: Context) -> TokenTree:
        best = self._heads(context.hidden).topk(CANDIDATES).indices
        nodes = best[:, self._depths, self._ranks]
        return TokenTree(torch.cat([context.roots, nodes], dim=1)[..., None], self._shape)
