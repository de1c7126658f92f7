"""What each kind of draft is taught: to say what follows, the further ahead the less it counts.

Head or module i, from 1, is weighted by 0.8^i (Li et al. 2025, section II-A).

Shapes: B utterances, T places, M places in a sample, V vocabulary.
"""

from __future__ import annotations

import torch
from talkahead.backbone.llama import Llama
from talkahead.drafting.draft_heads import DraftHeads
from talkahead.drafting.mtp_modules import MtpModules
from torch import Tensor
from torch.nn import functional

from training.draft_lessons import IGNORE, Lesson, drawing

DECAY = 0.8


def losses(network: DraftHeads | MtpModules | Llama, talker: Llama, lesson: Lesson, sample: int) -> Tensor:
    """Nats per token of each head or module, [K]; of a draft model [1].

    Args:
        sample: places that heads learn from in a step: each has the whole vocabulary to itself.
    """
    if isinstance(network, DraftHeads):
        return heads_losses(network, lesson, sample)
    if isinstance(network, MtpModules):
        return mtp_losses(network, talker, lesson)
    return draft_lm_losses(network, talker, lesson)


def weighted(parts: Tensor) -> Tensor:
    """The sum of [K], the i-th weighted by 0.8^i; a draft model's only part counts once."""
    if len(parts) == 1:
        return parts[0]
    return (parts * DECAY ** torch.arange(1.0, len(parts) + 1)).sum()


def heads_losses(heads: DraftHeads, lesson: Lesson, sample: int) -> Tensor:
    """Head i at the state that draws token t is asked for token t + i."""
    wanted = behind(lesson.tokens, len(heads))
    usable = torch.nonzero((wanted[..., 0] != IGNORE).flatten()).squeeze(1)
    chosen = usable[torch.randperm(len(usable))[:sample]]
    hidden, tokens = lesson.hidden.flatten(0, 1)[chosen], wanted.flatten(0, 1)[chosen]
    parts = [_nats(heads.guesses(hidden, index), tokens[:, index]) for index in range(len(heads))]
    return torch.stack(parts)


def mtp_losses(modules: MtpModules, talker: Llama, lesson: Lesson) -> Tensor:
    """Module i at the state that draws token t is told tokens t to t + i - 1 and asked for token t + i."""
    embedded = talker.model.embed_tokens(lesson.known)
    states = modules(lesson.hidden, embedded)
    parts = []
    for ahead, own in enumerate(states, 1):
        wanted = lesson.tokens[:, ahead:]
        is_known = wanted != IGNORE
        parts.append(_nats(talker.lm_head(own[:, : wanted.shape[1]][is_known]), wanted[is_known]))
    return torch.stack(parts)


def draft_lm_losses(draft: Llama, talker: Llama, lesson: Lesson) -> Tensor:
    """The draft is asked for every token, from its own embeddings of those before."""
    is_prompt = torch.arange(lesson.rows.shape[1]) <= lesson.starts[:, None]
    frame = torch.arange(lesson.rows.shape[1]) - lesson.starts[:, None] - 1
    frame = frame.clamp(0, lesson.tokens.shape[1] - 1)
    embedded = draft.model.embed_tokens(lesson.known.gather(1, frame))
    rows = torch.where(is_prompt[..., None], lesson.rows, embedded)
    states = drawing(draft(rows).hidden, lesson.starts, lesson.tokens.shape[1])
    is_known = lesson.tokens != IGNORE
    return _nats(draft.lm_head(states[is_known]), lesson.tokens[is_known])[None]


def behind(tokens: Tensor, count: int) -> Tensor:
    """The `count` tokens behind each, [B, T, count]; IGNORE behind the end."""
    longer = functional.pad(tokens, (0, count), value=IGNORE)
    return longer.unfold(1, count, 1)[:, 1:]


def _nats(logits: Tensor, tokens: Tensor) -> Tensor:
    return functional.cross_entropy(logits.float(), tokens, ignore_index=IGNORE)
