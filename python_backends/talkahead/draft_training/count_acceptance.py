"""Counts what drafts of each size bring with the verifier `match`, on texts that the talker speaks.

A server takes sizes, and the drafter of requests that ask for none, from this and from the step costs of the
machine that it runs on.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from torch import Tensor

from talkahead.config import RequestOptions
from talkahead.draft_training.own_speech import SLOTS, Talker, Utterance, speak
from talkahead.drafting.acceptance import Acceptance
from talkahead.drafting.draft_artifact import WEIGHTS, load_drafter
from talkahead.drafting.draft_pool import DraftOptions, DraftPool
from talkahead.engine.decode_step import DecodeStep
from talkahead.manifest import sha256
from talkahead.speculation.allowed_tokens import AllowedTokens
from talkahead.speculation.match_verifier import MatchVerifier


def count_acceptance(
    folder: Path,
    sizes: Sequence[int],
    talker: Path,
    prompts: Sequence[Tensor],
    sampling: RequestOptions,
    seed: int,
    *,
    positions: int | None = None,
    device: str = "cpu",
    allowed: AllowedTokens | None = None,
) -> Acceptance:
    """Speaks all prompts once with each size, as precisely as the talker is served.

    Args:
        folder: of the draft.
        sizes: nodes of its trees, the root among them.
        prompts: [P, D] each.
        positions: of prompt and speech at most; None: as many as the talker knows.
        allowed: see `DecodeStep`.
    """
    served = Talker.serving(talker, device)
    positions = positions or served.config.max_position_embeddings
    decoder = served.decoder(positions, max(sizes))
    pool = DraftPool.serving(SLOTS, positions, device)
    make_step = partial(DecodeStep, allowed=allowed)
    committed, steps = {}, 0
    for nodes in sorted(sizes):
        drafting = load_drafter(folder, talker, pool, DraftOptions(nodes, returns_probs=False))
        spoken = speak(decoder, drafting, MatchVerifier(), prompts, sampling, seed, make_step)
        committed[nodes] = round(_committed_per_step(spoken), 4)
        steps = max(steps, sum(one.steps for one in spoken))
    return Acceptance(sha256(folder / WEIGHTS), steps, sampling.temperature, sampling.top_p, committed)


def _committed_per_step(utterances: Sequence[Utterance]) -> float:
    """Tokens of a step, root included; the first token of each utterance comes without one."""
    return sum(len(one.tokens) - 1 for one in utterances) / sum(one.steps for one in utterances)
