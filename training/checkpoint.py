"""Interruptible training: everything that a run needs to go on, written atomically."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn


class Checkpoint:
    """One file that holds modules, optimiser and step; `save` replaces it in one move."""

    def __init__(self, path: Path, module: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self._path, self._module, self._optimizer = path, module, optimizer

    def resume(self) -> int:
        """Restores the newest state, if there is one; returns the number of steps already done."""
        if not self._path.exists():
            return 0
        state: dict[str, Any] = torch.load(self._path, weights_only=True)
        self._module.load_state_dict(state["module"])
        self._optimizer.load_state_dict(state["optimizer"])
        return int(state["step"])

    def save(self, step: int) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        partial = self._path.with_suffix(".partial")
        state = {"module": self._module.state_dict(), "optimizer": self._optimizer.state_dict(), "step": step}
        torch.save(state, partial)
        partial.rename(self._path)
