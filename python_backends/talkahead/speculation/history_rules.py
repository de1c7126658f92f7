"""Rules on what has been said: they make other logits of a tree's, before anything is drawn or verified.

What follows a node depends on the prompt's tokens, the segment's, and those on the path from the root to the
node. So verifiers see at each node the distribution that plain decoding would draw from there, and promise
what they promise without rules.

Shapes: B rows, N nodes, V vocabulary, F places of a row's history, W tokens of a window, D depths of a tree.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from talkahead.config import RequestOptions
from talkahead.speculation.allowed_tokens import AllowedTokens
from talkahead.speculation.contracts import Context, Scored
from talkahead.speculation.repetition_settings import RepetitionSettings
from talkahead.speculation.sampling import probabilities
from talkahead.speculation.token_tree import TokenTree

_NEVER = 1e3
"""So far below tokens that may be drawn are the others: e to the minus of it is 0 in float64 too. They keep
their order, for verifiers that look at ranks."""


@dataclass(frozen=True)
class HistoryRules:
    """Which rules some rows go by. Known on the host: what none of them wants is not computed.

    How much each row wants of a rule, `Context.repetition` says.

    Args:
        penalises: a row has a repetition penalty.
        win_len: the longest window of repetition-aware sampling; 0: no row has one.
        allowed: of all rows of a talker, or None.
    """

    penalises: bool = False
    win_len: int = 0
    allowed: AllowedTokens | None = None

    @classmethod
    def of(cls, options: RequestOptions, allowed: AllowedTokens | None) -> Self:
        """Windows are rounded up to powers of two, so that rows of many lengths go together.

        Nothing is drawn where the most likely token is taken, so nothing is drawn again.
        """
        win_len = options.ras_win_len if options.temperature > 0 else 0
        rounded = 1 << (win_len - 1).bit_length() if win_len else 0
        return cls(options.repetition_penalty != 1.0, rounded, allowed)

    @classmethod
    def together(cls, rules: Iterable[HistoryRules]) -> HistoryRules:
        """What rows of all of them want: each is left alone by what it did not ask for."""
        first, *others = rules
        for one in others:
            win_len = max(first.win_len, one.win_len)
            first = replace(first, penalises=first.penalises or one.penalises, win_len=win_len)
        return first

    @property
    def looks_back(self) -> bool:
        """Whether `Context.frames` must be filled."""
        return self.penalises or self.win_len > 0

    def apply(self, tree: TokenTree, scored: Scored, context: Context) -> tuple[Scored, Context]:
        """What verifiers are shown in place of `scored` and `context`: other logits, and their settings."""
        if self == NO_RULES:
            return scored, context
        logits = scored.logits
        if self.penalises:
            logits = _penalised(logits, tree, context)
        if self.allowed is not None:
            depths = tree.shape.on(logits.device).depth_row
            logits = self.allowed.apply(logits, context.positions[:, None] + depths + 1)
        if self.win_len:
            logits, context = self._aware(logits, tree, context)
        return Scored(logits, scored.hidden), context

    def _aware(self, logits: Tensor, tree: TokenTree, context: Context) -> tuple[Tensor, Context]:
        """Logits and settings of repetition-aware sampling (Chen et al. 2024, "VALL-E 2").

        A token that was drawn `max_num_repeat` times in the window is drawn again, from all that the talker
        says. As a distribution: q without those, and their share of it spread as the logits have it.
        """
        repetition, settings = _repetition(context), context.settings
        tokens, is_in_window = self._window(tree, context)
        is_same = tokens[..., :, None] == tokens[..., None, :]
        num_repeats = (is_same & is_in_window[..., None, :]).sum(dim=-1)
        is_repeated = num_repeats >= repetition.max_num_repeat[:, None, None]
        is_first = ~is_same.tril(-1).any(dim=-1)
        own = probabilities(logits, settings).to(logits.dtype)
        found = own.gather(2, tokens)
        share = torch.where(is_repeated & is_first, found, 0.0).sum(dim=-1, keepdim=True)
        mixed = own.scatter_(2, tokens, torch.where(is_repeated, 0.0, found))
        mixed = mixed.addcmul_(share, torch.softmax(logits, dim=-1))
        never = logits - (logits.amax(dim=-1, keepdim=True) + _NEVER)
        tiny = torch.finfo(logits.dtype).tiny  # the log of less takes ten times as long
        aware = torch.where(mixed > tiny, mixed.clamp_min(tiny).log_(), never)
        is_on = settings.is_sampled & (repetition.win_len > 0)
        logits = torch.where(is_on[:, None, None], aware, logits)
        # What native calls keep knows where the settings lie: these are others.
        drawn_by = replace(context, settings=settings.unfiltered_where(is_on), scratch=None)
        return logits, drawn_by

    def _window(self, tree: TokenTree, context: Context) -> tuple[Tensor, Tensor]:
        """The last tokens on the way to each node, itself the last, int64 [B, N, W]; which ones each row's
        window holds, bool."""
        repetition, device = _repetition(context), context.positions.device
        depths, places = tree.shape.on(device).depth_row, torch.arange(self.win_len, device=device)
        offsets = places - (self.win_len - 1)
        latest = (context.positions[:, None] + offsets) % context.frames.shape[1]
        said = _with_paths(context.frames[..., 0].gather(1, latest), tree)
        tokens = said.gather(2, (depths[:, None] + places).expand(tree.num_rows, -1, -1))
        positions = context.positions[:, None, None] + depths[:, None] + offsets
        is_known = positions >= -repetition.num_prompt[:, None, None]
        return tokens, is_known & (-offsets < repetition.win_len[:, None, None])


NO_RULES = HistoryRules()


def _penalised(logits: Tensor, tree: TokenTree, context: Context) -> Tensor:
    """What was said is less likely, however often it was said: as transformers' repetition penalty.

    The tokens are few against the vocabulary, so logits are gathered by them instead of masked.
    """
    repetition, history = _repetition(context), context.frames[..., 0]
    places = torch.arange(history.shape[1], device=history.device) - history.shape[1]
    is_prompt = places >= -repetition.num_prompt[:, None]
    is_said = is_prompt | (places + history.shape[1] <= context.positions[:, None])
    # What does not count is the root once more: a token that stands twice is penalised once.
    said = _with_paths(torch.where(is_said, history, context.roots), tree)
    has_begun = context.positions + repetition.num_prompt >= 0
    penalty = torch.where(has_begun, repetition.penalty, 1.0).to(logits.dtype)[:, None, None]
    scores = logits.gather(2, said)
    return logits.scatter(2, said, torch.where(scores < 0, scores * penalty, scores / penalty))


def _with_paths(history: Tensor, tree: TokenTree) -> Tensor:
    """Each row's history [B, K], whose last token is the root's, and after it each node's path,
    int64 [B, N, K + D]; after a path's end the root again."""
    paths = tree.shape.on(history.device).paths[:, 1:].clamp_min(0)
    before = history[:, None].expand(-1, tree.num_nodes, -1)
    return torch.cat([before, tree.tokens[:, paths, 0]], dim=2)


def _repetition(context: Context) -> RepetitionSettings:
    assert context.repetition is not None, "rows with rules have settings of them"
    return context.repetition
