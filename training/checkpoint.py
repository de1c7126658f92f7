"""Interruptible training: everything that a run needs to go on, written atomically."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from talkahead.weights import load_float32
from torch import nn


class Checkpoint:
    """One file that holds module, optimisers and step; `save` replaces it in one move."""

    def __init__(self, path: Path, module: nn.Module, *optimizers: torch.optim.Optimizer) -> None:
        self._path, self._module, self._optimizers = path, module, optimizers

    def resume(self) -> int:
        """Restores the newest state, if there is one; returns the number of steps already done."""
        if not self._path.exists():
            return 0
        state: dict[str, Any] = torch.load(self._path, weights_only=True)
        self._module.load_state_dict(state["module"])
        for optimizer, saved in zip(self._optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        return int(state["step"])

    def save(self, step: int) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        partial = self._path.with_suffix(".partial")
        optimizers = [optimizer.state_dict() for optimizer in self._optimizers]
        state = {"module": self._module.state_dict(), "optimizers": optimizers, "step": step}
        torch.save(state, partial)
        partial.rename(self._path)


def go_on_from(module: nn.Module, weights: Path) -> None:
    """Takes over every weight of a file whose name and shape the module has too."""
    own, found = module.state_dict(), load_float32(weights)
    fitting = {name: value for name, value in found.items() if name in own and own[name].shape == value.shape}
    module.load_state_dict({**own, **fitting})


def report(path: Path, steps: int, metrics: dict[str, float]) -> None:
    """What a training reached, for the artifact's manifest."""
    path.write_text(json.dumps({"steps": steps, "metrics": metrics}, indent=2) + "\n")
