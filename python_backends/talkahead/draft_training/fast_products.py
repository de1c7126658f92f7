"""The precision that products of a training are fastest in."""

from __future__ import annotations

import timeit
from functools import lru_cache

import torch

from talkahead.cpu_path import has_bfloat16_products

_SIDE = 1_024
_TRIED = 5
"""Times, of which the fastest counts."""


def fast_products(device: str = "cpu") -> torch.autocast:
    """A context in which products are of bfloat16 where these are the faster ones."""
    enabled = device != "cpu" or is_bfloat16_faster()
    return torch.autocast(device, dtype=torch.bfloat16, enabled=enabled)


@lru_cache(maxsize=1)
def is_bfloat16_faster() -> bool:
    """Whether this CPU multiplies bfloat16 faster than float32, as measured once a process.

    A CPU that imitates bfloat16 takes ten times as long, and not every CPU that has its instructions gains
    by them: of two without AMX, one multiplies bfloat16 at two to three times float32's speed, the other at
    two thirds of it.
    """
    return has_bfloat16_products() and _seconds(torch.bfloat16) < _seconds(torch.float32)


def _seconds(precision: torch.dtype) -> float:
    square = torch.ones(_SIDE, _SIDE, dtype=precision)
    return min(timeit.repeat(lambda: square @ square, number=1, repeat=_TRIED))
