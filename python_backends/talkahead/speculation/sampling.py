"""From logits to a drawn token, each row with its own temperature, top-k and top-p.

Shapes: S streams, N nodes each, T draws of each node, R rows of logits, V vocabulary, K candidates.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import torch
from torch import Tensor

from talkahead.speculation import host_reads
from talkahead.speculation.draws import Purpose, draw_keys, exponentials
from talkahead.speculation.native_sampler import NativeSampler, native_sampler
from talkahead.speculation.row_columns import RowColumns

_OFF = torch.iinfo(torch.int64).max
"""A top-k that no vocabulary reaches."""

NARROW = 128
"""Candidates looked at first: a nucleus is rarely wider, and a top-k costs a tenth of a sort."""


@dataclass(frozen=True)
class SamplingSettings(RowColumns):
    """Settings per row, [R] each.

    Args:
        sharpness: float64, 1 / temperature; 1 for a row that takes the most likely token.
        is_sampled: bool, the temperature is above 0.
        top_k: int64; the vocabulary's size turns it off.
        top_p: float64 in (0, 1]; 1 turns it off.
        support: tokens that any row can be drawn from at most, as far as the host knows; None: all. Away from
            the CPU, where it does not look at top-k itself, it goes by this.
    """

    sharpness: Tensor
    is_sampled: Tensor
    top_k: Tensor
    top_p: Tensor
    support: int | None = field(default=None, kw_only=True)

    @property
    def by_name(self) -> dict[str, Tensor]:
        """What rows have."""
        own = {"sharpness": self.sharpness, "is_sampled": self.is_sampled}
        return {**own, "top_k": self.top_k, "top_p": self.top_p}

    @property
    def columns(self) -> tuple[Tensor, ...]:
        return (self.sharpness, self.is_sampled, self.top_k, self.top_p)

    @classmethod
    def of(cls, temperature: Tensor, top_k: Tensor, top_p: Tensor) -> Self:
        """From float64 temperatures (0: the most likely token), int64 top_k (0: off) and float64 top_p."""
        is_sampled = temperature > 0
        sharpness = 1.0 / torch.where(is_sampled, temperature, 1.0)
        return cls(sharpness, is_sampled, torch.where(top_k > 0, top_k, _OFF), top_p)

    def unfiltered_where(self, rows: Tensor) -> SamplingSettings:
        """The same, but some rows, bool [R], are drawn as their logits are: neither sharpened nor cut."""
        return SamplingSettings(
            torch.where(rows, 1.0, self.sharpness),
            self.is_sampled,
            torch.where(rows, _OFF, self.top_k),
            torch.where(rows, 1.0, self.top_p),
        )

    def repeat(self, times: int) -> SamplingSettings:
        """Each row `times` times in a row: the settings of a tree's nodes."""
        if times == 1:
            return self
        columns = (column.repeat_interleave(times) for column in self.columns)
        return SamplingSettings(*columns, support=self.support)


@dataclass(frozen=True)
class Candidates:
    """The distribution q that a row is drawn from, as its support, most likely first.

    Args:
        tokens: int64 [R, K].
        weights: float64 [R, K], probabilities up to a factor per row; 0 outside the support.
    """

    tokens: Tensor
    weights: Tensor


def support_of(temperature: float, top_k: int) -> int | None:
    """The most tokens that a row of these settings can be drawn from; None: all."""
    return 1 if temperature == 0 else top_k or None


def candidates(logits: Tensor, settings: SamplingSettings, width: int = NARROW) -> Candidates:
    """Apply temperature, then top-k, then top-p (of what top-k left), as transformers does.

    `width` changes no result: when a row's support reaches beyond it, all rows are looked at whole. Where the
    host cannot see that, it goes by the support that the settings name.
    """
    vocabulary = int(logits.shape[-1])
    sees = host_reads.are_free(logits)
    width = min(width if sees else settings.support or vocabulary, vocabulary)
    sharpness = settings.sharpness[:, None]
    top, tokens = torch.topk(logits, width)
    scaled = top.to(torch.float64) * sharpness
    total = torch.logsumexp(logits * sharpness.to(logits.dtype), dim=-1, keepdim=True)
    weights = torch.exp(scaled - total)
    if not sees or bool((settings.top_k < vocabulary).any()):
        weights = _limited(weights, settings.top_k[:, None], vocabulary)
    kept = torch.cumsum(weights, dim=-1) - weights < settings.top_p[:, None]
    weights = weights * kept
    if sees and width < vocabulary and bool((_reaches_beyond(weights, settings, vocabulary)).any()):
        return candidates(logits, settings, vocabulary)
    return Candidates(tokens, weights)


def _limited(weights: Tensor, top_k: Tensor, vocabulary: int) -> Tensor:
    """Rows with a top-k: nothing beyond it, and weights that sum to 1 again: top-p is a share of that."""
    rank = torch.arange(weights.shape[-1], device=weights.device)
    within = torch.where(rank < top_k, weights, 0.0)
    return torch.where(top_k < vocabulary, within / within.sum(dim=-1, keepdim=True), weights)


def _reaches_beyond(weights: Tensor, settings: SamplingSettings, vocabulary: int) -> Tensor:
    """bool [R]: the row's support may go on after the tokens at hand."""
    cut_short = (settings.top_k > weights.shape[-1]) & (settings.top_k < vocabulary)
    is_open = (weights[:, -1] > 0) & (settings.top_k > weights.shape[-1])
    return settings.is_sampled & (cut_short | is_open)


def draw(logits: Tensor, settings: SamplingSettings, streams: Tensor, positions: Tensor) -> Tensor:
    """The token at each position, int64 [S, N].

    Args:
        logits: [S, N, V].
        settings: of each stream, [S].
        streams: int64 [S], the segments' keys from `draws.stream_keys`.
        positions: int64 [S, N], of the tokens drawn.
    """
    sampler = _native(logits)
    if sampler is not None:
        return sampler.draw(logits, settings.by_name, streams, positions)
    return draw_in_torch(logits, settings, streams, positions)


def draw_in_torch(logits: Tensor, settings: SamplingSettings, streams: Tensor, positions: Tensor) -> Tensor:
    """What `draw` does, on any device and in any precision."""
    return draw_several(logits, settings, streams[:, None], positions).tokens[..., 0]


@dataclass(frozen=True)
class Draws:
    """Several independent draws after each node.

    Args:
        tokens: int64 [S, N, T].
        log_norms: float64 [S, N]; a token that may be drawn has log q = its logit * sharpness - this.
    """

    tokens: Tensor
    log_norms: Tensor


def draw_several(logits: Tensor, settings: SamplingSettings, streams: Tensor, positions: Tensor) -> Draws:
    """T draws with replacement after each node: `draw` for each column of keys, `streams` int64 [S, T].

    Each token waits for an exponential time over its weight, and the first one is drawn: the Gumbel-max trick
    without its outer logarithm. The noise belongs to (key, token).
    """
    rows, flat = settings.repeat(positions.shape[1]), logits.flatten(0, 1)
    support = candidates(flat, rows)
    keys = draw_keys(streams[:, None], positions[..., None], Purpose.TOKEN).flatten(0, 1)
    times = exponentials(keys[..., None], support.tokens[:, None])
    waits = torch.where(rows.is_sampled[:, None, None], times, 1.0)
    first = torch.argmax(support.weights[:, None] / waits, dim=-1)
    tokens = support.tokens.gather(1, first)
    return Draws(
        tokens.view(*positions.shape, -1), _log_norms(logits.flatten(0, 1), rows, support).view_as(positions)
    )


def _log_norms(logits: Tensor, settings: SamplingSettings, support: Candidates) -> Tensor:
    """float64 [R]: read off the most likely token, whose share of the support is known."""
    best = logits.gather(1, support.tokens[:, :1])[:, 0].to(torch.float64) * settings.sharpness
    share = support.weights[:, 0] / support.weights.sum(dim=-1)
    return torch.where(settings.is_sampled, best - torch.log(share), best)


def probabilities(logits: Tensor, settings: SamplingSettings) -> Tensor:
    """The distribution that `draw` draws from, [S, N, V]: all on one token where nothing is sampled.

    Args:
        logits: [S, N, V].
        settings: of each stream, [S].
    """
    sampler = _native(logits)
    if sampler is not None:
        return sampler.probabilities(logits, settings.by_name)
    return probabilities_in_torch(logits, settings)


def probabilities_in_torch(logits: Tensor, settings: SamplingSettings) -> Tensor:
    """What `probabilities` does, on any device and in any precision; float64."""
    rows = settings.repeat(logits.shape[1])
    support = candidates(logits.flatten(0, 1), rows)
    is_first = torch.arange(support.weights.shape[1], device=logits.device) == 0
    weights = torch.where(rows.is_sampled[:, None], support.weights, is_first.to(torch.float64))
    weights = weights / weights.sum(dim=-1, keepdim=True)
    flat = torch.zeros(logits.flatten(0, 1).shape, dtype=torch.float64, device=logits.device)
    return flat.scatter_(1, support.tokens, weights).view(logits.shape)


def _native(logits: Tensor) -> NativeSampler | None:
    """The sampler in C, where there is one and it can read these logits."""
    return native_sampler() if NativeSampler.fits(logits) else None
