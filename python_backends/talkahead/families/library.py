"""Libraries that only some families need: an extra of the package, imported when such a family is loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType

from torch import Tensor, nn

from talkahead.errors import ArtifactMismatch, TalkaheadError


def library(name: str) -> ModuleType:
    """Raises TalkaheadError where it is not installed."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise TalkaheadError(
            f"the package {name} is not here, which this family needs; install it with: "
            "pip install 'talkahead[families]'"
        ) from error


def fill(model: nn.Module, state: Mapping[str, Tensor], path: Path, may_lack: Callable[[str], bool]) -> bool:
    """Gives a library's model the tensors of a file, by name. Returns whether none is missing.

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
