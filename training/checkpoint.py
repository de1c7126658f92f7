"""What a training begins with, and what it tells of its end."""

from __future__ import annotations

import json
from pathlib import Path

from talkahead.weights import load_float32
from torch import nn


def go_on_from(module: nn.Module, weights: Path) -> None:
    """Takes over every weight of a file whose name and shape the module has too."""
    own, found = module.state_dict(), load_float32(weights)
    fitting = {name: value for name, value in found.items() if name in own and own[name].shape == value.shape}
    module.load_state_dict({**own, **fitting})


def report(path: Path, steps: int, metrics: dict[str, float]) -> None:
    """What a training reached, for the artifact's manifest."""
    path.write_text(json.dumps({"steps": steps, "metrics": metrics}, indent=2) + "\n", encoding="utf-8")
