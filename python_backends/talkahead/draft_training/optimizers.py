"""The optimisers of every language model that is trained here."""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import nn


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
    muon = torch.optim.Muon(matrices, lr=1e-3, weight_decay=decay, adjust_lr_fn="match_rms_adamw")
    return [muon, torch.optim.AdamW(others, lr=1e-3, betas=(0.9, 0.98), weight_decay=0.01)]
