"""Tokens per step of a draft, counted by hand, and the logits of one that must be the talker's."""

from __future__ import annotations

import torch
from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.backbone.llama import Llama
from talkahead.backbone.native_decoder import NativeDecoder
from talkahead.config import RequestOptions
from talkahead.speculation.match_verifier import MatchVerifier

from instruments.draft_shape import first_layers
from instruments.own_speech import RecordingDrafter, speak
from training.draft_trial import draft_logits, followed

CONFIG = DecoderConfig(
    12,
    11,
    hidden_size=16,
    intermediate_size=16,
    num_hidden_layers=3,
    num_attention_heads=1,
    num_key_value_heads=1,
    head_dim=16,
)


def test_a_draft_is_followed_as_far_as_it_agrees() -> None:
    # Drafts of two: both right, the first wrong, one right (then the root), and what is left.
    agreements = [True, True, False, False, True, False, True]
    assert followed([agreements], length=2) == 7 / 4
    assert followed([[False] * 4], length=3) == 1.0
    assert followed([[True] * 8], length=3) == 4.0


def test_a_cut_of_all_layers_is_the_talker() -> None:
    torch.manual_seed(0)
    talker = Llama(CONFIG).requires_grad_(False)
    for weight in talker.parameters():
        weight.copy_((weight * 8).bfloat16())
    decoder = NativeDecoder(CONFIG, talker.state_dict(), num_slots=2, max_positions=40, max_nodes=1)
    prompts = list(torch.randn(2, 3, CONFIG.hidden_size))
    spoken = speak(decoder, RecordingDrafter(), MatchVerifier(), prompts, RequestOptions(), seed=5)
    logits = draft_logits(first_layers(talker, CONFIG.num_hidden_layers), spoken)
    for one, own in zip(spoken, logits, strict=True):
        expected = talker.lm_head(torch.stack(one.hidden))
        torch.testing.assert_close(own[: len(one.hidden)], expected, atol=1e-3, rtol=1e-3)
