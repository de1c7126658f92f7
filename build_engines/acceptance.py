"""Counts what drafts of each size bring with the verifier `match`, on texts that the talker speaks.

A server takes sizes, and the drafter of requests that ask for none, from this and from the step costs of the
machine that it runs on.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from talkahead.backbone.llama import load_llama
from talkahead.backbone.native_decoder import NativeDecoder, can_multiply
from talkahead.config import RequestOptions
from talkahead.drafting.acceptance import Acceptance
from talkahead.drafting.draft_artifact import WEIGHTS, load_drafter
from talkahead.drafting.draft_pool import DraftOptions, DraftPool
from talkahead.manifest import sha256
from talkahead.speculation.match_verifier import MatchVerifier
from torch import Tensor

from instruments.own_speech import speak

_SLOTS = 16


def count_acceptance(
    folder: Path,
    sizes: Sequence[int],
    talker: Path,
    prompts: Sequence[Tensor],
    sampling: RequestOptions,
    seed: int,
) -> Acceptance:
    """Speaks all prompts once with each size, as precisely as the talker is served.

    Args:
        folder: of the draft.
        sizes: nodes of its trees, the root among them.
        prompts: [P, D] each.
    """
    config, state = load_llama(talker)
    precision = torch.bfloat16 if can_multiply(torch.bfloat16) else torch.float32
    decoder = NativeDecoder(
        config,
        state,
        num_slots=_SLOTS,
        max_positions=config.max_position_embeddings,
        max_nodes=max(sizes),
        precision=precision,
    )
    pool = DraftPool.serving(_SLOTS, config.max_position_embeddings)
    committed, steps = {}, 0
    for nodes in sorted(sizes):
        drafting = load_drafter(folder, talker, pool, DraftOptions(nodes, tells_probs=False))
        spoken = speak(decoder, drafting, MatchVerifier(), prompts, sampling, seed)
        taken = sum(one.steps for one in spoken)
        # The first token of an utterance comes from its prompt.
        committed[nodes] = round(sum(len(one.tokens) - 1 for one in spoken) / taken, 4)
        steps = max(steps, taken)
    return Acceptance(sha256(folder / WEIGHTS), steps, sampling.temperature, sampling.top_p, committed)
