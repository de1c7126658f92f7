"""A prefill tells the hidden states of all rows where they are wanted, and nothing else changes."""

from __future__ import annotations

import pytest
import torch
from talkahead.backbone.checkpoint import NORM
from talkahead.backbone.decoder_choice import load_decoder
from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.backbone.llama import Llama
from torch import Tensor

CONFIG = DecoderConfig(40, 39, 32, 48, 2, 2, 1, 16, max_position_embeddings=64)
LENGTHS = [3, 33, 1]
SLOTS = [2, 0, 3]


@pytest.fixture(scope="module")
def llama() -> Llama:
    torch.manual_seed(0)
    llama = Llama(CONFIG).double().eval().requires_grad_(False)
    llama.model.norm.weight.uniform_(0.5, 1.5)
    return llama


@pytest.mark.parametrize("has_norm", [True, False], ids=["normed", "as it is"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["tensors", "native"])
def test_all_hidden_states_of_a_prompt(llama: Llama, dtype: torch.dtype, has_norm: bool) -> None:
    state = {name: value for name, value in llama.state_dict().items() if has_norm or name != NORM}
    generator = torch.Generator().manual_seed(2)
    prompts = torch.randn((3, max(LENGTHS), CONFIG.hidden_size), generator=generator, dtype=torch.float64)

    def prefill(all_hidden: bool) -> tuple[Tensor, Tensor]:
        decoder = load_decoder(CONFIG, state, num_slots=4, max_positions=50, dtype=dtype)
        scored = decoder.prefill(SLOTS, prompts.to(dtype), LENGTHS, all_hidden=all_hidden)
        return scored.logits, scored.hidden

    (logits, hidden), (same, last) = prefill(True), prefill(False)
    assert torch.equal(logits, same)
    whole = Llama(CONFIG).double().requires_grad_(False)
    whole.load_state_dict(llama.state_dict())
    if not has_norm:
        whole.model.register_module("norm", torch.nn.Identity())
    near = 1e-9 if dtype is torch.float64 else 1e-4
    for row, length in enumerate(LENGTHS):
        expected = whole(prompts[row : row + 1, :length]).hidden[0]
        torch.testing.assert_close(hidden[row, :length].double(), expected, atol=near, rtol=near)
        torch.testing.assert_close(hidden[row, length - 1], last[row, 0])
        assert not hidden[row, length:].any()
        scores = llama.lm_head(expected[-1])
        torch.testing.assert_close(logits[row, 0].double(), scores, atol=near, rtol=near)
