"""Rows of a matrix in an order in which neighbours are alike, so that few of them need to be looked at to
find the largest products with a vector.

Shapes: V rows, D columns, B blocks.
"""

from __future__ import annotations

import torch
from torch import Tensor

_LOOKS = 8
"""At the rows of a part, to find along which direction it is halved, and again to settle its halves."""
_LOOKED_AT = 2048
"""Rows of a large part, for that: many times the numbers of its direction."""


def in_blocks_alike(rows: Tensor, size: int) -> Tensor:
    """The order, int64 [V], of rows [V, D] in blocks of `size`, the last of which may be smaller.

    A part is halved, in whole blocks, along the direction in which its rows differ most, and then by which of
    both means a row is nearer to: two means of equal weight.
    """
    parts, done = [torch.arange(len(rows), device=rows.device)], []
    while parts:
        part = parts.pop()
        if len(part) <= size:
            done.append(part)
            continue
        place = -(-len(part) // size) // 2 * size
        order = _order_along_differences(rows[part], place)
        parts += [part[order[place:]], part[order[:place]]]
    return torch.cat(done)


def block_means(rows: Tensor, size: int) -> Tensor:
    """[B, D], of rows [V, D] in whole blocks, the last of which may be smaller."""
    return torch.stack([block.mean(0) for block in torch.split(rows, size)])


def _order_along_differences(rows: Tensor, place: int) -> Tensor:
    """In which the rows before a place differ the most from those after it."""
    some = rows[:: -(-len(rows) // _LOOKED_AT)]
    some, place = some - some.mean(0), place * len(some) // len(rows)
    lengths = torch.linalg.vector_norm(some, dim=1)
    direction = some[lengths.argmax()]
    shrinking = 1.0 / lengths.square().sum().clamp_min(1e-30)  # so that it grows by at most 1 a look
    for _ in range(_LOOKS):
        direction = some.T @ (some @ direction) * shrinking
    was_before: Tensor | None = None
    for _ in range(_LOOKS):
        along = some @ direction
        is_before = along < along.kthvalue(place + 1).values
        if was_before is not None and torch.equal(is_before, was_before):
            break
        direction = -(is_before.to(some.dtype) @ some)  # their mean's; the others' is its opposite
        was_before = is_before
    return (rows @ direction).argsort()
