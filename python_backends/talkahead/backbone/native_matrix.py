"""Matrices of weights as native code reads them."""

from __future__ import annotations

import ctypes
from ctypes import Structure, c_int64, c_void_p

import torch
from torch import Tensor

from talkahead.backbone.arena import Arena

_BFLOAT16, _FLOAT32, _PAIRED, _BYTES = 0, 1, 2, 3
_TILE_BYTES = 64
"""Of the inputs that a tile holds."""
_PARTS = 3
"""bfloat16 values that a float becomes in tiles."""


class Matrix(Structure):
    """`struct matrix` of `native/matrices.h`."""

    _fields_ = (
        ("panels", c_void_p),
        ("inputs", c_int64),
        ("outputs", c_int64),
        ("kind", c_int64),
        ("parts", c_int64),
        ("scales", c_void_p),
        ("offsets", c_void_p),
    )


class MatrixPacker:
    """Packs weights one behind the other, in the order of their use, and holds them.

    Args:
        library: `native/decoder.c`.
        precision: of products.
        in_tiles: whether they may be computed in tiles.
    """

    def __init__(self, library: ctypes.CDLL, precision: torch.dtype, *, in_tiles: bool) -> None:
        self._library = library
        self._precision = precision
        self._in_tiles = in_tiles
        self._arena = Arena()
        self._kept: list[Tensor] = []  # what C points at

    def keep(self, tensor: Tensor) -> int:
        """The address of a tensor as plain floats, which live as long as this."""
        self._kept.append(plain(tensor))
        return self._kept[-1].data_ptr()

    def pack(self, weight: Tensor) -> Matrix:
        """From [outputs, inputs]."""
        values = plain(weight)
        outputs, inputs = values.shape
        scales = offsets = None
        is_narrow = torch.equal(values, values.bfloat16().float())
        bytes_each = 1 if self._precision is torch.int8 else 2
        in_tiles = self._in_tiles and inputs * bytes_each % _TILE_BYTES == 0
        parts = int(in_tiles)
        if self._precision is torch.int8:
            steps = values.abs().amax(1).clamp_min(1e-30) / 127
            values, kind = (values / steps[:, None]).round(), _BYTES
            scales, offsets = self._padded(steps), self._padded((128 * values.sum(1)).to(torch.int32))
        elif self._precision is torch.bfloat16:
            values, kind = values.bfloat16().float(), _PAIRED
        elif is_narrow and in_tiles:
            kind, parts = _PAIRED, _PARTS
        else:
            kind, parts = _BFLOAT16 if is_narrow else _FLOAT32, 0
        panels = self._arena.take(self._library.talkahead_packed_bytes(inputs, outputs, kind))
        self._library.talkahead_pack(values.data_ptr(), inputs, outputs, kind, panels.data_ptr())
        self._kept.append(panels)
        return Matrix(panels.data_ptr(), inputs, outputs, kind, parts, scales, offsets)

    def _padded(self, column: Tensor) -> int:
        """[outputs], zero up to a whole panel."""
        panel = self._library.talkahead_panel()
        self._kept.append(torch.nn.functional.pad(column, (0, -len(column) % panel)))
        return self._kept[-1].data_ptr()


def plain(tensor: Tensor) -> Tensor:
    return tensor.detach().to("cpu", torch.float32).contiguous()
