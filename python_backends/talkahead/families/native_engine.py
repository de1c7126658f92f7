"""Networks in native code of ours, where there is a compiler."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

from talkahead.config import AUTO
from talkahead.errors import ArtifactMismatch
from talkahead.native_library import NativeUnavailable

NATIVE = "native"
"""The engine's name; on CPUs `auto` is this one first."""
Network = TypeVar("Network")


def native_network(engine: str, device: torch.device, make: Callable[[], Network]) -> Network | None:
    """What `make` compiles, if `engine` may be native on the device; None where another one is to run.

    Raises ArtifactMismatch where it is insisted on and cannot be had.
    """
    if engine not in (AUTO, NATIVE) or device.type != "cpu":
        return None
    try:
        return make()
    except NativeUnavailable as error:
        if engine == NATIVE:
            raise ArtifactMismatch(f"engine: {NATIVE} cannot be had here: {error}") from error
        return None
