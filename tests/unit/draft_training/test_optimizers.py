"""The optimiser of CPUs without products of bfloat16 goes where torch's own goes."""

from __future__ import annotations

import copy

import torch
from talkahead.draft_training.optimizers import Float32Muon
from torch import nn


def test_float32_muon_goes_where_torch_goes() -> None:
    """As far as bfloat16, in which torch multiplies, can tell: three hundredths of what a step changes."""
    torch.manual_seed(0)
    ours = nn.Sequential(
        nn.Linear(24, 40, bias=False), nn.Linear(40, 24, bias=False), nn.Linear(24, 24, bias=False)
    )
    torchs, before = copy.deepcopy(ours), copy.deepcopy(ours)
    rates = {"lr": 1e-2, "weight_decay": 0.1}
    muons = (
        Float32Muon(ours.parameters(), **rates),
        torch.optim.Muon(torchs.parameters(), adjust_lr_fn="match_rms_adamw", **rates),
    )
    for _ in range(4):
        gradients = [torch.randn_like(matrix) for matrix in ours.parameters()]
        for network, muon in zip((ours, torchs), muons, strict=True):
            for matrix, gradient in zip(network.parameters(), gradients, strict=True):
                matrix.grad = gradient.clone()
            muon.step()
    for one, other, start in zip(ours.parameters(), torchs.parameters(), before.parameters(), strict=True):
        assert (one - other).norm() < 0.03 * (other - start).norm()
    muons[0].load_state_dict(muons[1].state_dict())
