"""The optimisers of every language model that is trained here."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

import torch
from torch import Tensor, nn

from talkahead.draft_training.fast_products import is_bfloat16_faster

_MOMENTUM = 0.95
_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
_ROUNDS = 5
"""Of Newton and Schulz; all three as in `torch.optim.Muon`."""


def optimizers_of(network: nn.Module, tables: Collection[str], decay: float) -> list[torch.optim.Optimizer]:
    """Muon for the hidden matrices (it needs fewer steps), AdamW for everything else that learns.

    Args:
        tables: parts of the names of matrices that are no hidden ones: embeddings and heads.
        decay: weight decay of the hidden matrices.
    """
    matrices: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    for name, value in network.named_parameters():
        if not value.requires_grad:
            continue
        hidden = value.ndim == 2 and not any(part in name for part in tables)
        (matrices if hidden else others).append(value)
    return [_muon(matrices, decay), torch.optim.AdamW(others, lr=1e-3, betas=(0.9, 0.98), weight_decay=0.01)]


def _muon(matrices: Sequence[nn.Parameter], decay: float) -> torch.optim.Optimizer:
    on_slow_cpu = not is_bfloat16_faster() and all(matrix.device.type == "cpu" for matrix in matrices)
    if on_slow_cpu:
        return Float32Muon(matrices, lr=1e-3, weight_decay=decay)
    return torch.optim.Muon(matrices, lr=1e-3, weight_decay=decay, adjust_lr_fn="match_rms_adamw")


class Float32Muon(torch.optim.Optimizer):
    """torch's Muon (Jordan 2024; scaled after Liu et al. 2025) in float32, with the same state.

    torch's multiplies in bfloat16 whatever is fast: where that is imitated, its products took more time than
    all else of a step.
    """

    def __init__(self, matrices: Iterable[nn.Parameter], lr: float, weight_decay: float) -> None:
        super().__init__(matrices, {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            alike: dict[torch.Size, list[nn.Parameter]] = defaultdict(list)
            for matrix in group["params"]:
                if matrix.grad is not None:
                    alike[matrix.shape].append(matrix)
            for matrices in alike.values():
                self._change(matrices, group["lr"], group["weight_decay"])

    def _change(self, matrices: Sequence[nn.Parameter], rate: float, decay: float) -> None:
        """Matrices of one shape, together."""
        directions = _orthogonal(torch.stack([self._direction(matrix) for matrix in matrices]))
        scaled = 0.2 * math.sqrt(max(matrices[0].shape)) * rate
        for matrix, direction in zip(matrices, directions, strict=True):
            matrix.mul_(1 - rate * decay).sub_(direction, alpha=scaled)

    def _direction(self, matrix: nn.Parameter) -> Tensor:
        """Nesterov's momentum."""
        assert matrix.grad is not None
        state = self.state[matrix]
        if not state:
            state["momentum_buffer"] = torch.zeros_like(matrix)
        mean: Tensor = state["momentum_buffer"].lerp_(matrix.grad, 1 - _MOMENTUM)
        return matrix.grad.lerp(mean, _MOMENTUM)


def _orthogonal(matrices: Tensor) -> Tensor:
    """[n, rows, columns] with singular values near 1, by the iteration of Newton and Schulz."""
    is_tall = matrices.shape[1] > matrices.shape[2]
    wide = matrices.mT if is_tall else matrices
    found: Tensor = wide / wide.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)
    first, second, third = _COEFFICIENTS
    for _ in range(_ROUNDS):
        gram = found @ found.mT
        found = first * found + (second * gram + third * (gram @ gram)) @ found
    return found.mT if is_tall else found
