"""The talker is a Llama that transformers loads: same logits, same greedy tokens, in float64."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.backbone.llama import Llama

transformers = pytest.importorskip("transformers")

# transformers computes rotary angles in float32 whatever the model's type: agreement ends there.
ANGLE_ERROR = 1e-5


@pytest.fixture(params=[4, 2], ids=["all heads", "grouped heads"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    torch.manual_seed(1)
    config = DecoderConfig(50, 49, 64, 96, 3, 4, request.param, 16, max_position_embeddings=128)
    llama = Llama(config)
    for value in llama.parameters():
        value.data.mul_(4.0 if value.ndim == 2 else 1.0)
    llama.save(tmp_path)
    return tmp_path


def test_logits_agree_with_transformers(folder: Path) -> None:
    theirs = transformers.LlamaForCausalLM.from_pretrained(folder, dtype=torch.float64)
    ours = Llama.load(folder).double()
    rows = torch.randn(2, 40, 64, dtype=torch.float64)
    expected = theirs(inputs_embeds=rows).logits
    assert expected.std() > 0.1
    torch.testing.assert_close(ours.lm_head(ours(rows).hidden), expected, rtol=0, atol=ANGLE_ERROR)


def test_greedy_tokens_agree_with_transformers(folder: Path) -> None:
    theirs = transformers.LlamaForCausalLM.from_pretrained(folder, dtype=torch.float64)
    ours = Llama.load(folder).double()
    rows = prompt = torch.randn(1, 10, 64, dtype=torch.float64)
    tokens = []
    for _ in range(30):
        tokens.append(int(ours.lm_head(ours(rows).hidden)[0, -1].argmax()))
        rows = torch.cat([rows, ours.model.embed_tokens(torch.tensor([tokens[-1:]]))], dim=1)
    generated = theirs.generate(
        inputs_embeds=prompt, max_new_tokens=30, do_sample=False, eos_token_id=None, pad_token_id=0
    )
    assert len(set(tokens)) > 3
    assert generated[0].tolist() == tokens


def test_the_watched_head_attends_causally(folder: Path) -> None:
    ours = Llama.load(folder)
    seen = ours(torch.randn(2, 9, 64), watched=(1, 2)).watched
    assert seen is not None and seen.shape == (2, 9, 9)
    assert torch.isinf(seen.triu(1)[:, 0, 1:]).all()
    assert torch.isfinite(seen.diagonal(dim1=1, dim2=2)).all()
