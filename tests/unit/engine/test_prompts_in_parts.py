"""The shipped talker says the same after a prompt that was read in parts, with every draft."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from talkahead.backbone.checkpoint import Checkpoint
from talkahead.backbone.decoder_choice import load_decoder
from talkahead.config import RequestOptions
from talkahead.drafting.draft_artifact import load_drafter
from talkahead.drafting.draft_files import draft_folder
from talkahead.drafting.draft_pool import DraftOptions, DraftPool
from talkahead.engine.decode_step import Admission, DecodeStep
from talkahead.generation_config import read_alignment_head
from talkahead.speculation.contracts import Drafter
from talkahead.speculation.match_verifier import MatchVerifier
from talkahead.speculation.null_drafter import NullDrafter

from instruments.environment import REPOSITORY
from perf.talker.prompts import text_prompts

TALKER = REPOSITORY / "talker" / "1"
POSITIONS, STEPS, PARTS = 400, 40, (5, 1, 30)


def drafter_of(name: str) -> Drafter:
    if name == "none":
        return NullDrafter()
    pool = DraftPool.serving(2, POSITIONS)
    return load_drafter(draft_folder(TALKER, name), TALKER, pool, DraftOptions(4, returns_probs=False))


@pytest.mark.parametrize("name", ["none", "heads", "mtp", "draft_lm"])
def test_tokens_and_words_are_those_of_a_prompt_read_at_once(name: str) -> None:
    checkpoint = Checkpoint(TALKER)
    backbone = load_decoder(
        checkpoint.config,
        checkpoint,
        num_slots=2,
        max_positions=POSITIONS,
        max_nodes=8,
        dtype=torch.int8,
        alignment_head=read_alignment_head(TALKER),
    )
    step = DecodeStep(backbone, drafter_of(name), MatchVerifier())
    if not step.reads_in_parts:
        pytest.skip("the decoder of this machine reads prompts at once")
    prompt = torch.from_numpy(max(text_prompts(REPOSITORY), key=len))
    assert len(prompt) > sum(PARTS)
    whole, parted = (Admission(slot, prompt, RequestOptions(), 7, 0) for slot in range(2))
    for count in PARTS:
        parted = step.read(parted, count)
    said = [step.admit([one])[0].tolist() for one in (whole, parted)]
    for _ in range(STEPS):
        drawn = step.run([0, 1])
        for slot, tokens, count in zip(drawn.slots, drawn.tokens, drawn.counts, strict=True):
            said[slot] += tokens[:count, 0].tolist()
    assert said[0] == said[1] and len(said[0]) > STEPS
    first, beyond = len(prompt) - 1, len(prompt) + STEPS
    words = [step.aligned(slot, first, beyond) for slot in range(2)]
    assert words[0] is not None and words[1] is not None
    assert np.array_equal(*words)
