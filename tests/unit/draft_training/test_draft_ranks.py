"""Ranks of what the talker said: of the hidden states that drew it, and as real decoding follows them."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from device_traffic import BRINGING, META, Traffic
from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.backbone.llama import Llama
from talkahead.backbone.native_decoder import NativeDecoder
from talkahead.config import RequestOptions
from talkahead.draft_training.draft_ranks import positions, ranks
from talkahead.draft_training.own_speech import RecordingDrafter, Utterance, speak
from talkahead.drafting.draft_heads import DraftHeads
from talkahead.drafting.heads_drafter import HeadsDrafter
from talkahead.drafting.rank_paths import RankPaths
from talkahead.speculation.contracts import Verifier
from talkahead.speculation.match_verifier import MatchVerifier
from talkahead.speculation.tolerance_verifier import ToleranceVerifier

SIZE = 12
CONFIG = DecoderConfig(
    SIZE,
    SIZE - 1,
    hidden_size=16,
    intermediate_size=16,
    num_hidden_layers=3,
    num_attention_heads=1,
    num_key_value_heads=1,
    head_dim=16,
)
SAMPLING = RequestOptions(temperature=0.7, top_p=0.95)


@pytest.fixture(scope="module")
def talker() -> Llama:
    torch.manual_seed(0)
    talker = Llama(CONFIG).requires_grad_(False)
    for weight in talker.parameters():
        weight.copy_((weight * 8).bfloat16())
    return talker


@pytest.fixture(scope="module")
def prompts() -> list[torch.Tensor]:
    return list(torch.randn(7, 3, CONFIG.hidden_size, generator=torch.Generator().manual_seed(1)))


def _decoder(talker: Llama, nodes: int) -> NativeDecoder:
    return NativeDecoder(CONFIG, talker.state_dict(), num_slots=3, max_positions=40, max_nodes=nodes)


@pytest.fixture(scope="module")
def spoken(talker: Llama, prompts: list[torch.Tensor]) -> list[Utterance]:
    return speak(_decoder(talker, 1), RecordingDrafter(), MatchVerifier(), prompts, SAMPLING, seed=5)


@pytest.fixture(scope="module")
def heads(talker: Llama) -> DraftHeads:
    torch.manual_seed(2)
    heads = DraftHeads.beginning_as(talker.lm_head.weight, 3, talker.model.embed_tokens.weight)
    for layer in (heads.projector, *heads.outward):
        torch.nn.init.normal_(layer.get_parameter("weight"), std=0.1)
    return heads.requires_grad_(False)


def test_hidden_states_are_those_that_drew_the_tokens(talker: Llama, spoken: list[Utterance]) -> None:
    for one in spoken:
        assert len(one.hidden) == len(one.tokens) - 1 == one.steps
        rows = torch.cat([one.prompt, talker.model.embed_tokens(torch.tensor(one.tokens[:-1]))])
        states = talker(rows[None]).hidden[0, len(one.prompt) - 1 : -1]
        torch.testing.assert_close(torch.stack(one.hidden), states, atol=1e-4, rtol=1e-4)


def test_from_a_device_ranks_are_fetched_and_no_logits(
    spoken: list[Utterance], heads: DraftHeads, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: list[tuple[int, ...]] = []

    def cpu(tensor: torch.Tensor) -> torch.Tensor:
        fetched.append(tuple(tensor.shape))
        return torch.zeros(tensor.shape, dtype=tensor.dtype)

    monkeypatch.setattr(torch.Tensor, "cpu", cpu)
    with Traffic() as traffic:
        found = ranks(copy.deepcopy(heads).to(META), spoken, SAMPLING)
    assert fetched and all(shape[1:] == (len(heads),) for shape in fetched)
    assert found.shape == (sum(len(one.hidden) for one in spoken), len(heads))
    assert traffic.kinds <= BRINGING | {"_has_compatible_shallow_copy_type"}


@pytest.mark.parametrize("verifier", [MatchVerifier(), ToleranceVerifier(1, eos=SIZE - 1)])
def test_walked_steps_are_decoded_steps(
    talker: Llama,
    prompts: list[torch.Tensor],
    spoken: list[Utterance],
    heads: DraftHeads,
    verifier: Verifier,
) -> None:
    """Of `match`, and of a tolerance of 1, which is `match`: the same tokens, in as many steps."""
    found = [ranks(heads, [one], SAMPLING).numpy() for one in spoken]
    tree = RankPaths.count(np.concatenate(found), width=10).best_tree(8)
    decoded = speak(_decoder(talker, 8), HeadsDrafter(heads, tree), verifier, prompts, SAMPLING, seed=5)
    assert [one.tokens for one in decoded] == [one.tokens for one in spoken]
    walked = [tree.steps(own) for own in found]
    assert [one.steps for one in decoded] == walked
    assert sum(walked) < sum(one.steps for one in spoken)


def test_heads_are_asked_for_the_tokens_behind_the_one_drawn() -> None:
    one = Utterance(torch.zeros(1, 2), seed=0, tokens=[5, 6, 7, 8], hidden=list(torch.eye(3)))
    hidden, said = positions([one], num_heads=2)
    assert hidden.tolist() == torch.eye(3).tolist()
    assert said.tolist() == [[5, 6, 7], [6, 7, 8], [7, 8, -100]]
