"""Weights of a library's model: exactly those that its configuration asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from pickle import UnpicklingError
from zipfile import is_zipfile

import torch
from torch import Tensor, nn

from talkahead.errors import ArtifactMismatch


def present(path: Path) -> Path:
    """Raises ArtifactMismatch where it is not."""
    if not path.exists():
        raise ArtifactMismatch(f"{path} is missing; download the codec's folder again, with all its files")
    return path


def torch_state(path: Path) -> dict[str, Tensor]:
    """What `torch.save` wrote, in no memory before it is read, where its format allows that.

    Raises:
        ArtifactMismatch: it is no such file, or holds other things than tensors.
    """
    try:
        state: dict[str, Tensor] = torch.load(
            path, map_location="cpu", weights_only=True, mmap=is_zipfile(path)
        )
    except (RuntimeError, EOFError, UnpicklingError) as error:
        reason = str(error).partition("\n")[0]
        raise ArtifactMismatch(
            f"{path} cannot be read ({reason}); allowed: tensors by name, as torch.save writes them"
        ) from error
    return state


def fill(model: nn.Module, state: Mapping[str, Tensor], path: Path, may_lack: Callable[[str], bool]) -> bool:
    """Gives a model the tensors of a file, by name. Returns whether none is missing.

    Args:
        may_lack: whether the model can do without a tensor.

    Raises:
        ArtifactMismatch: it cannot, or the file has others, or of another shape.
    """
    try:
        found = model.load_state_dict(state, strict=False)
    except RuntimeError as error:
        raise ArtifactMismatch(f"{path} does not fit the config.json beside it: {error}") from error
    missing = [name for name in found.missing_keys if not may_lack(name)]
    if missing or found.unexpected_keys:
        raise ArtifactMismatch(
            f"{path} does not fit the config.json beside it: missing {', '.join(missing) or 'nothing'}; "
            f"unknown {', '.join(found.unexpected_keys) or 'nothing'}"
        )
    return not found.missing_keys
