"""From logits to a drawn token, each row with its own temperature, top-k and top-p.

Shapes: R rows of logits, V vocabulary, K candidates.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from talkahead.speculation.draws import gumbels

NARROW = 128
"""Candidates looked at first: a nucleus is rarely wider, and a top-k costs a tenth of a sort."""


@dataclass(frozen=True)
class SamplingSettings:
    """Settings per row, [R] each.

    Args:
        temperature: float64; 0 takes the most likely token.
        top_k: int64; the vocabulary's size turns it off.
        top_p: float64 in (0, 1]; 1 turns it off.
    """

    temperature: Tensor
    top_k: Tensor
    top_p: Tensor

    def rows(self, rows: slice) -> SamplingSettings:
        return SamplingSettings(self.temperature[rows], self.top_k[rows], self.top_p[rows])

    def repeat(self, times: int) -> SamplingSettings:
        """Each row `times` times in a row: the settings of a tree's nodes."""
        if times == 1:
            return self
        return SamplingSettings(
            self.temperature.repeat_interleave(times),
            self.top_k.repeat_interleave(times),
            self.top_p.repeat_interleave(times),
        )


@dataclass(frozen=True)
class Candidates:
    """The distribution q that a row is drawn from, as its support, most likely first.

    Args:
        tokens: int64 [R, K].
        log_probs: float64 [R, K], -inf outside the support; up to a constant per row, which changes no draw.
    """

    tokens: Tensor
    log_probs: Tensor


def candidates(logits: Tensor, settings: SamplingSettings, width: int = NARROW) -> Candidates:
    """Apply temperature, then top-k, then top-p (of what top-k left), as transformers does.

    `width` changes no result: when a row's support reaches beyond it, all rows are looked at whole.
    """
    vocabulary = int(logits.shape[-1])
    width = min(width, vocabulary)
    sampled = settings.temperature > 0
    temperature = torch.where(sampled, settings.temperature, 1.0)[:, None]
    top_k = settings.top_k[:, None]
    top, tokens = torch.topk(logits, width)
    within = torch.arange(width, device=logits.device) < top_k
    scaled = (top.to(torch.float64) / temperature).masked_fill(~within, -torch.inf)
    whole = torch.logsumexp(logits / temperature.to(logits.dtype), dim=-1, keepdim=True)
    limited = torch.logsumexp(scaled, dim=-1, keepdim=True)
    probs = torch.exp(scaled - torch.where(top_k > width, whole.to(torch.float64), limited))
    kept = within & (torch.cumsum(probs, dim=-1) - probs < settings.top_p[:, None])
    if width < vocabulary:
        reaches_beyond = (settings.top_k > width) & (kept[:, -1] | (settings.top_k < vocabulary))
        if bool((sampled & reaches_beyond).any()):
            return candidates(logits, settings, vocabulary)
    return Candidates(tokens, scaled.masked_fill(~kept, -torch.inf))


def draw(logits: Tensor, settings: SamplingSettings, keys: Tensor) -> Tensor:
    """One token per row, int64 [R]; `keys` int64 [R] from `draw_keys`. The noise belongs to (key, token)."""
    support = candidates(logits, settings)
    noise = gumbels(keys[:, None], support.tokens)
    noise = torch.where(settings.temperature[:, None] > 0, noise, 0.0)
    best = torch.argmax(support.log_probs + noise, dim=-1, keepdim=True)
    return support.tokens.gather(1, best).squeeze(1)
