"""Which tokens draws that are still to come may bring, from a draft's guess at what they are drawn from.

The noise of a draw is known before it is made. Who guesses with the same noise guesses what is drawn more
often than who takes the likeliest tokens (Gumbel coupling: Daliri et al. 2024, "Coupling without
Communication and Drafter-Invariant Speculative Decoding").

Shapes: S streams, N guesses of each, T draws that each is made for, V vocabulary, K tokens of a guess.
"""

from __future__ import annotations

import torch
from torch import Tensor

from talkahead.speculation.draws import Purpose, draw_keys, exponentials
from talkahead.speculation.sampling import SamplingSettings

NARROW = 16
"""The likeliest tokens, among which draws are looked for. With 32, trees committed no more."""

CONFIDENCE = 1.3
"""A guess is less sure than the target, which leaves out what top-p does. Trees of 8 nodes of the shipped
heads committed 1.94 tokens a step with 1 and 1.97 with 1.3, with a tolerance of 3 2.23 and 2.28."""


def likely_draws(
    logits: Tensor, settings: SamplingSettings, streams: Tensor, positions: Tensor, width: int
) -> Tensor:
    """The tokens that any of T draws may bring, likeliest first, int64 [S, N, width].

    They are looked for among the `NARROW` likeliest, or `width` if that is more. Where nothing is sampled,
    and where T is 0, these are they.

    Args:
        logits: [S, N, V].
        settings: of each stream, [S].
        streams: int64 [S, T], keys from `draws.trial_streams`.
        positions: int64 [S, N], of the tokens guessed.
    """
    top = torch.topk(logits, min(max(NARROW, width), int(logits.shape[-1])))
    if streams.shape[1] == 0:
        return top.indices[..., :width]
    keys = draw_keys(streams[:, None], positions[..., None], Purpose.TOKEN)[:, :, None]
    hurry = -torch.log(exponentials(keys, top.indices[..., None]).amin(-1))
    hurry = torch.where(settings.is_sampled[:, None, None], hurry, 0.0)
    scores = top.values.to(torch.float64) * (CONFIDENCE * settings.sharpness)[:, None, None] + hurry
    order = scores.argsort(dim=-1, descending=True, stable=True)
    return top.indices.gather(2, order)[..., :width]
