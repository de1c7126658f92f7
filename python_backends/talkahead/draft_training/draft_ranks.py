"""Which places draft heads give to what the talker said by itself.

Shapes: M positions, K heads, D hidden size, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from talkahead.config import RequestOptions
from talkahead.draft_training.own_speech import Utterance
from talkahead.drafting.draft_heads import DraftHeads
from talkahead.drafting.likely_draws import NARROW, likely_draws
from talkahead.drafting.rank_paths import RankPaths
from talkahead.speculation.draws import stream_keys
from talkahead.speculation.sampling import SamplingSettings

CANDIDATES = 10
"""Tokens of each head that a tree may use."""
IGNORE = -100
"""Stands after the end of an utterance."""
_BATCH = 2_048
_DEVICE_BATCH = 256
"""Where memory is dearer: four heads have a quarter of a gigabyte of Llasa's logits then."""


def positions(utterances: Sequence[Utterance], num_heads: int) -> tuple[Tensor, Tensor]:
    """Hidden states [M, D], and the tokens that they drew with those that follow, [M, K + 1], -100 after
    the end: head i, from 1, is told the first i and should say the next.
    """
    hidden, said = [], []
    for utterance in utterances:
        states = torch.stack(utterance.hidden)
        after = torch.full((num_heads,), IGNORE)
        tokens = torch.cat([torch.tensor(utterance.tokens), after])
        hidden.append(states)
        said.append(tokens.unfold(0, num_heads + 1, 1)[: len(states)])
    return torch.cat(hidden), torch.cat(said)


@torch.inference_mode()
def ranks(heads: DraftHeads, utterances: Sequence[Utterance], sampling: RequestOptions) -> Tensor:
    """Place of each token that was said among what a drafter of these heads would try, from 0, int64 [M, K];
    V of one that it would not try, and after the end.

    Args:
        sampling: with which the utterances were spoken.
    """
    hidden, said = positions(utterances, len(heads))
    streams, places = _draws(utterances)
    found, device = [], next(heads.parameters()).device
    for rows in torch.split(torch.arange(len(hidden)), _BATCH if device.type == "cpu" else _DEVICE_BATCH):
        # Whole vocabularies stay where they are: all else is small.
        seen, wanted = (one.to(device) for one in (seen_tokens(said[rows]), said[rows, 1:]))
        logits = heads(hidden[rows].to(device), seen)
        ahead = (places[rows, None] + torch.arange(1, len(heads) + 1)).to(device)
        settings = sampling_settings(sampling, len(rows), device)
        tried = likely_draws(logits, settings, streams[rows, None].to(device), ahead, NARROW)
        is_said = tried == wanted[..., None]
        found.append(torch.where(is_said.any(2), is_said.int().argmax(2), logits.shape[2]).cpu())
    return torch.cat(found)


def count_ranks(heads: DraftHeads, utterances: Sequence[Utterance], sampling: RequestOptions) -> RankPaths:
    """Which rank paths were followed by what was said, with `sampling`."""
    return RankPaths.count(ranks(heads, utterances, sampling).numpy(), CANDIDATES)


def sampling_settings(
    sampling: RequestOptions, rows: int, device: torch.device | None = None
) -> SamplingSettings:
    """One request's, for each of so many rows."""
    ones = torch.ones(rows, dtype=torch.float64, device=device)
    top_k = torch.full((rows,), sampling.top_k, device=device)
    return SamplingSettings.of(sampling.temperature * ones, top_k, sampling.top_p * ones)


def _draws(utterances: Sequence[Utterance]) -> tuple[Tensor, Tensor]:
    """Of each position the key of its draws and its place in its utterance, int64 [M] each."""
    counts = torch.tensor([len(one.hidden) for one in utterances])
    seeds = torch.tensor([one.seed for one in utterances])
    streams = stream_keys(seeds, torch.zeros_like(seeds)).repeat_interleave(counts)
    return streams, torch.cat([torch.arange(len(one.hidden)) for one in utterances])


def seen_tokens(said: Tensor) -> Tensor:
    """The tokens that heads see, [M, K], with something harmless after the end."""
    return said[:, :-1].clamp_min(0)
