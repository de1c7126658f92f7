"""Memory in large pages: a step reads all weights and keys once, with a look-up for each small page."""

from __future__ import annotations

import math
import mmap
from collections.abc import Sequence
from contextlib import suppress

import torch
from torch import Tensor

_PAGE = 1 << 21
_BLOCK = 16 * _PAGE
_LINE = 64


class Arena:
    """Hands out zeroed memory, one piece right after the other; it lives as long as any piece of it."""

    def __init__(self) -> None:
        self._free = torch.empty(0, dtype=torch.uint8)

    def take(self, num_bytes: int) -> Tensor:
        """uint8 [num_bytes], at the start of a cache line."""
        whole = -(-num_bytes // _LINE) * _LINE
        if whole > len(self._free):
            self._free = _block(max(whole, _BLOCK))
        piece, self._free = self._free[:num_bytes], self._free[whole:]
        return piece


def untouched_zeros(shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Zeros, which on CPUs take no memory before they are written to."""
    if device.type != "cpu":
        return torch.zeros(*shape, dtype=dtype, device=device)
    return Arena().take(math.prod(shape) * dtype.itemsize).view(dtype).view(*shape)


def _block(num_bytes: int) -> Tensor:
    """In large pages where the system grants them; what nobody touches takes no memory."""
    # Private: of shared memory, which is Python's default, most systems grant none in large pages.
    memory = mmap.mmap(-1, num_bytes + _PAGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(AttributeError, OSError):  # not Linux, or a kernel without them
        memory.madvise(mmap.MADV_HUGEPAGE)
    block = torch.frombuffer(memory, dtype=torch.uint8)
    start = -block.data_ptr() % _PAGE
    return block[start : start + num_bytes]
