"""Interruptible training: everything that a run needs to go on, written atomically."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from talkahead.errors import TalkaheadError


class TrainingState:
    """One file that holds module, optimisers and step, and what else a run notes; `save` replaces it in one
    move."""

    def __init__(self, path: Path, module: nn.Module, *optimizers: torch.optim.Optimizer) -> None:
        self._path, self._module, self._optimizers = path, module, optimizers
        self.notes: dict[str, Any] = {}
        """Tensors, numbers, texts, and lists and dicts of them, as the last `save` left them."""

    def resume(self) -> int:
        """Restores the newest state, if there is one; returns the number of steps already done.

        Raises:
            TalkaheadError: it is of another shape.
        """
        if not self._path.exists():
            return 0
        state: dict[str, Any] = torch.load(self._path, weights_only=True)
        try:
            self._module.load_state_dict(state["module"])
            for optimizer, saved in zip(self._optimizers, state["optimizers"], strict=True):
                optimizer.load_state_dict(saved)
        except (RuntimeError, ValueError) as error:
            raise TalkaheadError(
                f"{self._path} is of a training of another shape, and cannot be gone on with: give its "
                "options again, or remove it"
            ) from error
        self.notes = state.get("notes", {})
        return int(state["step"])

    def save(self, step: int) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        partial = self._path.with_suffix(".partial")
        optimizers = [optimizer.state_dict() for optimizer in self._optimizers]
        state = {
            "module": self._module.state_dict(),
            "optimizers": optimizers,
            "step": step,
            "notes": self.notes,
        }
        torch.save(state, partial)
        partial.rename(self._path)
