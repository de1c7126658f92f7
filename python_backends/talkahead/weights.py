"""Weight files, which are kept in half precision and computed with in single."""

from __future__ import annotations

from pathlib import Path

from safetensors.torch import load_file
from torch import Tensor


def load_float32(path: Path) -> dict[str, Tensor]:
    """Every tensor of a safetensors file, as float32."""
    return {name: value.float() for name, value in load_file(path).items()}
