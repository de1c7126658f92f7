"""What a tolerance would accept, counted while the talker speaks plainly."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.backbone.llama import Llama
from talkahead.config import RequestOptions
from talkahead.drafting.draft_heads import DraftHeads
from talkahead.drafting.heads_drafter import HeadsDrafter
from talkahead.drafting.rank_paths import RankTree
from talkahead.speculation.tolerance_verifier import ToleranceVerifier
from torch import Tensor

from instruments.accepted_paths import count_accepted
from instruments.draft_ranks import count_ranks
from instruments.own_speech import OwnSpeech

SIZE = 12
CONFIG = DecoderConfig(SIZE, SIZE - 1, 16, 16, 3, 1, 1, 16)
SAMPLING = RequestOptions(temperature=0.7, top_p=0.95)
TREE = RankTree(tuple(path for depth in (1, 2, 3) for path in product(range(3), repeat=depth)))


@pytest.fixture(scope="module")
def talker() -> Llama:
    torch.manual_seed(0)
    talker = Llama(CONFIG).requires_grad_(False)
    for weight in talker.parameters():
        weight.copy_((weight * 4).bfloat16())
    return talker


@pytest.fixture(scope="module")
def own_speech(talker: Llama) -> OwnSpeech:
    generator = torch.Generator().manual_seed(1)
    prompts: list[Tensor] = list(torch.randn(40, 3, CONFIG.hidden_size, generator=generator))
    return OwnSpeech(talker, prompts, SAMPLING, seed=5)


@pytest.fixture(scope="module")
def heads(talker: Llama) -> DraftHeads:
    torch.manual_seed(2)
    heads = DraftHeads.beginning_as(talker.lm_head.weight, 3, talker.model.embed_tokens.weight)
    for layer in (heads.projector, *heads.outward):
        torch.nn.init.normal_(layer.get_parameter("weight"), std=0.1)
    return heads.requires_grad_(False)


def test_one_draw_accepts_what_the_ranks_of_what_was_said_tell(
    own_speech: OwnSpeech, heads: DraftHeads
) -> None:
    ranks = count_ranks(heads, own_speech.plain(), SAMPLING)
    counted = count_accepted(heads, own_speech, TREE, 1, eos=SIZE - 1)
    assert counted.total == ranks.total
    assert counted.committed_per_step(TREE) == pytest.approx(ranks.committed_per_step(TREE), abs=1e-12)
    assert counted.accepted.sum() == sum(ranks.counts[path] for path in TREE.paths)


def test_three_draws_accept_what_the_verifier_takes(own_speech: OwnSpeech, heads: DraftHeads) -> None:
    """Counted over all places, a step brings about what steps of really tolerant speech bring."""
    counted = count_accepted(heads, own_speech, TREE, 3, eos=SIZE - 1)
    drafter, verifier = HeadsDrafter(heads, TREE), ToleranceVerifier(3, SIZE - 1)
    said = own_speech.drafted(drafter, len(TREE.shape), verifier)
    tokens, steps = sum(len(one.tokens) - 1 for one in said), sum(one.steps for one in said)
    assert counted.committed_per_step(TREE) == pytest.approx(tokens / steps, rel=0.05)
    one = count_accepted(heads, own_speech, TREE, 1, eos=SIZE - 1)
    assert counted.committed_per_step(TREE) > one.committed_per_step(TREE) + 0.1
