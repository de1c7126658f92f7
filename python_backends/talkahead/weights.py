"""Weight files, kept in half precision and computed with in single, and modules that wait for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode


def load_float32(path: Path) -> dict[str, Tensor]:
    """Every tensor of a safetensors file, as float32."""
    return {name: value.float() for name, value in load_file(path).items()}


class Unfilled(TorchFunctionMode):
    """Modules that are made while it is entered draw no first weights, which a file gives all of them anyway:
    of the shipped talker's drafts that takes a third of a second of a start."""

    def __torch_function__(
        self,
        function: Callable[..., object],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> object:
        named = kwargs or {}
        if getattr(function, "__module__", None) == nn.init.__name__:
            return named.get("tensor", *args[:1])
        return function(*args, **named)
