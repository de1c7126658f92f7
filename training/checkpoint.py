"""What a training begins with, and what it tells of its end."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor, nn


def go_on_from(module: nn.Module, found: Mapping[str, Tensor]) -> None:
    """Takes over every weight whose name and shape the module has too."""
    own = module.state_dict()
    fitting = {name: value for name, value in found.items() if name in own and own[name].shape == value.shape}
    module.load_state_dict({**own, **fitting})


def report(path: Path, steps: int, metrics: dict[str, float]) -> None:
    """What a training reached, for the artifact's manifest."""
    path.write_text(json.dumps({"steps": steps, "metrics": metrics}, indent=2) + "\n", encoding="utf-8")
