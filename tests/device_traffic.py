"""What a device would be asked, without one: on torch's device "meta" tensors have no values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

META = torch.device("meta")
BRINGING = {"copy_", "to", "_to_copy", "__getitem__", "__setitem__"}
"""What may bring tensors from one side to the other, outside of steps."""


class Traffic(TorchDispatchMode):
    """Notes what passes between the host and a device, whichever way.

    A number on the host may meet a device's tensor: it goes along with what is asked for. But where a number
    is assigned to a single element (`lengths[slot] = 0`), torch makes it a tensor of the host, for CUDA
    alone, and copies that. An H200 refused to record a step with such a copy. So with a list that a
    device's tensor is indexed by (`codes[:, [1, 4]]`): an H100 refused that.
    """

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []
        self._indexing = _Indexing(self.seen)

    def __enter__(self) -> Self:
        self._indexing.__enter__()
        super().__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, traceback)
        self._indexing.__exit__(kind, error, traceback)

    def __torch_dispatch__(
        self,
        func: Callable[..., object],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> object:
        found = func(*args, **(kwargs or {}))
        tensors = [one for one in tree_leaves((args, kwargs, found)) if isinstance(one, Tensor) and one.dim()]
        crosses = len({one.device.type for one in tensors}) > 1
        if crosses or "_local_scalar_dense" in str(func) or _assigns_number(func, args):
            self.seen.append(str(func))
        return found

    @property
    def kinds(self) -> set[str]:
        """The operations without their overloads."""
        return {one.split(".")[1] for one in self.seen}


class _Indexing(TorchFunctionMode):
    """Notes lists by which a device's tensors are indexed, which torch brings there before it dispatches."""

    def __init__(self, seen: list[str]) -> None:
        super().__init__()
        self._seen = seen

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> object:
        if func in (Tensor.__getitem__, Tensor.__setitem__) and args[0].device == META:
            index = args[1] if isinstance(args[1], tuple) else (args[1],)
            if any(isinstance(one, Sequence | np.ndarray) for one in index):
                self._seen.append(f"aten.{func.__name__}.list")
        return func(*args, **(kwargs or {}))


def _assigns_number(func: Callable[..., object], args: tuple[Any, ...]) -> bool:
    return func is torch.ops.aten.copy_.default and args[0].dim() == 0 and args[0].device == META
