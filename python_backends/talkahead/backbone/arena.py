"""Memory in large pages: a step reads all weights and keys once, and small pages would cost it a look-up each."""

from __future__ import annotations

import mmap

import torch
from torch import Tensor

_PAGE = 1 << 21


def zeroed(num_bytes: int) -> Tensor:
    """uint8 [num_bytes], zero, in large pages where the system grants them."""
    block = mmap.mmap(-1, num_bytes + _PAGE)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        try:
            block.madvise(mmap.MADV_HUGEPAGE)
        except OSError:
            pass
    whole = torch.frombuffer(block, dtype=torch.uint8)
    start = -whole.data_ptr() % _PAGE
    return whole[start : start + num_bytes]
