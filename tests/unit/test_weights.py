"""Modules that wait for a file's weights draw none of their own."""

from __future__ import annotations

import torch
from talkahead.weights import Unfilled
from torch import nn


def layers() -> nn.Module:
    return nn.Sequential(
        nn.Embedding(9, 4), nn.Linear(4, 7), nn.Conv1d(7, 3, 2), nn.RMSNorm(4), nn.LayerNorm(4)
    )


def test_unfilled_modules_draw_nothing_and_take_a_files_weights() -> None:
    filled = layers()
    before = torch.random.get_rng_state()
    with Unfilled():
        unfilled = layers()
    assert torch.equal(torch.random.get_rng_state(), before)
    unfilled.load_state_dict(filled.state_dict())
    for name, value in filled.state_dict().items():
        assert torch.equal(unfilled.state_dict()[name], value), name


def test_modules_made_afterwards_draw_again() -> None:
    with Unfilled():
        layers()
    torch.manual_seed(1)
    once = nn.Linear(4, 7).weight.clone()
    torch.manual_seed(1)
    assert torch.equal(nn.Linear(4, 7).weight, once) and once.abs().sum() > 0
