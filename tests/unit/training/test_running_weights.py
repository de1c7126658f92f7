"""The mean of a network's weights over the steps of a training."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from training.running_weights import running_mean


def _moved(memory: float, steps: int) -> float:
    network = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(network.weight)
    mean = running_mean(network, memory)
    nn.init.ones_(network.weight)
    for _ in range(steps):
        mean.update_parameters(network)
    return mean.module.weight.item()


def test_without_memory_it_is_the_network() -> None:
    assert _moved(0.0, 3) == 1.0


def test_it_soon_forgets_where_a_training_began() -> None:
    assert _moved(0.999, 300) > 0.99


def test_in_the_long_run_it_remembers_what_it_is_told_to() -> None:
    network = nn.Linear(1, 1, bias=False)
    mean = running_mean(network, 0.5)
    for _ in range(100):
        mean.update_parameters(network)
    before = mean.module.weight.item()
    with torch.no_grad():
        network.weight += 1.0
    mean.update_parameters(network)
    assert mean.module.weight.item() - before == pytest.approx(0.5, abs=1e-6)


@pytest.mark.parametrize("memory", [-0.1, 1.0])
def test_memory_out_of_range_is_refused(memory: float) -> None:
    with pytest.raises(ValueError, match=r"averaging: .*allowed: from 0 to below 1"):
        running_mean(nn.Linear(1, 1), memory)
