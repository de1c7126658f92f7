"""Shared vectors change how a talker learns, and nothing of what is served."""

from __future__ import annotations

import torch
from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.backbone.llama import Llama

from training.shared_codes import CodeFactors, plain, share

FACTORS = CodeFactors(tones=5, spectra=6)
TALKER = DecoderConfig(
    vocab_size=FACTORS.num_codes + 1,
    eos_token_id=FACTORS.num_codes,
    hidden_size=8,
    intermediate_size=8,
    num_hidden_layers=1,
    num_attention_heads=1,
    num_key_value_heads=1,
    head_dim=8,
    max_position_embeddings=16,
)


def learnt() -> Llama:
    """A talker after one step that saw a single code."""
    torch.manual_seed(0)
    talker = Llama(TALKER)
    share(talker, FACTORS)
    optimizer = torch.optim.SGD(talker.parameters(), lr=1.0)
    talker.model.embed_tokens(torch.tensor([13])).sum().backward()
    optimizer.step()
    return talker


def test_codes_of_one_spectrum_or_tone_learn_together() -> None:
    after = learnt().model.embed_tokens.weight
    torch.manual_seed(0)
    change = after - Llama(TALKER).model.embed_tokens.weight
    moved = {code for code in range(TALKER.vocab_size) if change[code].abs().max() > 1e-6}
    assert moved == {12, 13, 14, 15, 16, 17} | {1, 7, 13, 19, 25}


def test_what_is_served_computes_the_same() -> None:
    talker = learnt()
    served = plain(talker)
    assert set(served.state_dict()) == set(Llama(TALKER).state_dict())
    rows = torch.randn(2, 5, 8)
    with torch.no_grad():
        one, other = (model.lm_head(model(rows).hidden) for model in (talker, served))
    assert torch.equal(one, other)
    assert torch.equal(talker.model.embed_tokens.weight, served.model.embed_tokens.weight)
