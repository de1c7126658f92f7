"""What each kind of draft is taught: to say what follows.

Head or module i, from 1, is weighted by 0.8^i (Li et al. 2025, section II-A), or all are by 1 (Tian et al.
2025, equation 2).

Shapes: B utterances, T places, M places that are learned from, D hidden size, V vocabulary,
K likeliest tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from talkahead.backbone.llama import Llama
from talkahead.draft_training.lesson import IGNORE, Lesson, drawing
from talkahead.drafting.draft_heads import DraftHeads
from talkahead.drafting.mtp_modules import MtpModules

DECAY = 0.8
_LEAST = torch.finfo(torch.float32).tiny
"""Of what odds count as, so that each has a logarithm."""


@dataclass(frozen=True)
class Teaching:
    """How drafts are taught.

    Args:
        sample: places that heads learn from in a step: each has the whole vocabulary to itself.
        soft: share of the loss that asks for the talker's distribution (Hinton et al. 2015) and not for the
            token that was said: what is drafted is judged by the former. Lessons have to tell it.
    """

    talker: Llama
    sample: int = 2_048
    soft: float = 0.0

    def losses(self, network: DraftHeads | MtpModules | Llama, lesson: Lesson) -> Tensor:
        """Nats per token of each head or module, [K]; of a draft model [1]."""
        if isinstance(network, DraftHeads):
            return self._of_heads(network, lesson)
        if isinstance(network, MtpModules):
            return self._of_modules(network, lesson)
        return self._of_draft_lm(network, lesson)

    def _of_heads(self, heads: DraftHeads, lesson: Lesson) -> Tensor:
        """Head i at the state that draws token t, told tokens t to t + i - 1, is asked for token t + i."""
        usable = torch.nonzero(lesson.tokens[:, 1:] != IGNORE)
        rows, places = usable[torch.randperm(len(usable))[: self.sample]].unbind(1)
        seen = heads.begin(lesson.hidden[rows, places], lesson.tokens[rows, places])
        parts = []
        for index in range(len(heads)):
            after = places + index + 1
            within = after.clamp_max(lesson.tokens.shape[1] - 1)
            told = torch.where(after == within, lesson.tokens[rows, within], IGNORE)
            is_known = told != IGNORE
            states = heads.states(seen, index)
            logits = heads.guesses(states[is_known], index)
            parts.append(self._nats(logits, lesson, (rows[is_known], within[is_known])))
            seen = heads.onward(seen, states, told.clamp_min(0))
        return torch.stack(parts)

    def _of_modules(self, modules: MtpModules, lesson: Lesson) -> Tensor:
        """Module i at the state that draws token t is told tokens t to t + i - 1 and asked for t + i."""
        states = modules(lesson.hidden, self.talker.model.embed_tokens(lesson.known))
        head = modules.lm_head or self.talker.lm_head
        parts = []
        for ahead, own in enumerate(states, 1):
            rows, places = torch.nonzero(lesson.tokens[:, ahead:] != IGNORE, as_tuple=True)
            logits = head(own[rows, places])
            parts.append(self._nats(logits, lesson, (rows, places + ahead)))
        return torch.stack(parts)

    def _of_draft_lm(self, draft: Llama, lesson: Lesson) -> Tensor:
        """The draft is asked for every token, from its own embeddings of those before."""
        frame = torch.arange(lesson.rows.shape[1], device=lesson.rows.device) - lesson.starts[:, None] - 1
        within = frame.clamp(0, lesson.tokens.shape[1] - 1)
        embedded = draft.model.embed_tokens(lesson.known.gather(1, within))
        rows = torch.where((frame < 0)[..., None], lesson.rows, embedded)
        states = drawing(draft(rows).hidden, lesson.starts, lesson.tokens.shape[1])
        where = torch.nonzero(lesson.tokens != IGNORE, as_tuple=True)
        return self._nats(draft.lm_head(states[where]), lesson, where)[None]

    def _nats(self, logits: Tensor, lesson: Lesson, where: tuple[Tensor, ...]) -> Tensor:
        """Of logits [M, V], where the lesson's tokens at `where` were said."""
        tokens, likely = lesson.tokens[where], lesson.likely
        if not self.soft:
            return functional.cross_entropy(logits.float(), tokens)
        assert likely is not None, "soft lessons tell what the talker might have said"
        expected = (likely.tokens[where].long(), likely.odds[where].float())
        nats: Tensor = _Nats.apply(logits, tokens, *expected, self.soft)  # type: ignore[no-untyped-call]
        return nats


class _Nats(torch.autograd.Function):
    """Cross entropy of logits [M, V] with tokens [M] and, which counts by `soft`, with `odds` [M, K] of
    `likely` [M, K]. Whole vocabularies are what a step is made of, so each is passed over as seldom as can
    be.
    """

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        logits: Tensor,
        tokens: Tensor,
        likely: Tensor,
        odds: Tensor,
        soft: float,
    ) -> Tensor:
        slope = logits.softmax(1, dtype=torch.float32)
        said = tokens[:, None]
        hard = slope.gather(1, said).clamp_min(_LEAST).log_()
        expected = (slope.gather(1, likely).clamp_min(_LEAST).log_() * odds).sum(1, keepdim=True)
        slope.scatter_add_(1, said, slope.new_full((), soft - 1.0).expand(said.shape))
        slope.scatter_add_(1, likely, odds * -soft)
        ctx.save_for_backward(slope.to(logits.dtype))
        return -((1.0 - soft) * hard + soft * expected).mean()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        (slope,) = ctx.saved_tensors
        return slope.mul_((gradients[0] / len(slope)).to(slope.dtype)), None, None, None, None


def weighted(parts: Tensor, *, fades: bool = True) -> Tensor:
    """The sum of [K], the i-th weighted by 0.8^i if that fades; a draft model's only part counts once."""
    if len(parts) == 1 or not fades:
        return parts.sum()
    return (parts * DECAY ** torch.arange(1.0, len(parts) + 1, device=parts.device)).sum()
