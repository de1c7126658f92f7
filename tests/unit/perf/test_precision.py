"""The comparison of precisions finds nothing between equals, and what was changed."""

from __future__ import annotations

import pytest
import torch
from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.backbone.llama import Llama
from talkahead.backbone.native_decoder import NativeDecoder

from perf.precision import compare, summary

CONFIG = DecoderConfig(40, 39, 32, 32, 2, 2, 2, 16)
PROMPT = torch.randn(7, 32, generator=torch.Generator().manual_seed(0)).numpy()


def decoder(change: float = 0.0) -> NativeDecoder:
    """Its head favours the first token by `change`."""
    torch.manual_seed(3)
    state = {name: 6 * value for name, value in Llama(CONFIG).requires_grad_(False).state_dict().items()}
    if change:
        state["lm_head.weight"] = state["lm_head.weight"] + change * torch.randn(40, 32)
    return NativeDecoder(CONFIG, state, num_slots=1, max_positions=64)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_equals_do_not_differ(temperature: float) -> None:
    found = compare(decoder(), decoder(), PROMPT, 5, temperature, 30)
    assert found.frames > 1 and found.spread > 0
    assert (found.largest_error, found.mean_kl, found.changed_best, found.changed_draws) == (0, 0, 0, 0)
    assert found.parted is None


def test_what_differs_is_counted() -> None:
    found = compare(decoder(), decoder(3.0), PROMPT, 5, 1.0, 30)
    assert found.largest_error > found.mean_error > 0 and found.mean_kl > 0
    assert 0 < found.changed_best <= found.frames and 0 < found.changed_draws <= found.frames
    assert found.parted is not None
    row = summary(1.0, [found, found])
    assert row["frames"] == str(2 * found.frames) and row["utterances parted"] == "2 of 2"
