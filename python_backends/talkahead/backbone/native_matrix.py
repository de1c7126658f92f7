"""Matrices of weights as native code reads them."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from talkahead.backbone.arena import Arena
from talkahead.native_declarations import NativeStruct, native_struct
from talkahead.native_library import NativeLibrary

Matrix = native_struct(Path(__file__).parent / "native" / "matrices.h", "matrix")
_BFLOAT16, _FLOAT32, _PAIRED, _BYTES, _NIBBLES = range(5)
_TILE_BYTES = 64
"""Of the inputs that a tile holds."""
_BLOCK = 1024
"""Outputs that are packed at once: whole panels."""
_PARTS = 3
"""bfloat16 values that a float becomes in tiles."""
INT4: torch.dtype = vars(torch)["int4"]
"""Which torch's stubs do not have."""
GROUP = 32
"""Neighbouring inputs whose weights of four bits have one scale."""


def weight_bytes(precision: torch.dtype) -> float:
    """Of one weight, with its share of a group's scale."""
    return (4 + 16 / GROUP) / 8 if precision is INT4 else precision.itemsize


class MatrixPacker:
    """Packs weights one after the other, in the order of their use, and holds them.

    Bytes that meet tiles are followed by zeros up to a whole one.

    Args:
        library: `native/decoder.c`.
        precision: of products.
        in_tiles: whether they may be computed in tiles.
    """

    def __init__(self, library: NativeLibrary, precision: torch.dtype, *, in_tiles: bool) -> None:
        self._library = library
        self._precision = precision
        self._in_tiles = in_tiles
        self._arena = Arena()
        self._kept: list[Tensor] = []  # what C points at
        self.reach = torch.empty(library.talkahead_rows() + 1, dtype=torch.int64)
        """Words that weights are fetched ahead of their use, by the rows that meet them together; below 0, of
        the lines that are used at once the first alone. No bit depends on it."""
        library.talkahead_usual_reach(self.reach.data_ptr())

    def keep(self, tensor: Tensor) -> int:
        """The address of a tensor's copy as plain floats, which lives as long as this."""
        self._kept.append(plain(tensor).clone())
        return self._kept[-1].data_ptr()

    def pack(self, weight: Tensor, bias: Tensor | None = None) -> NativeStruct:
        """From [outputs, inputs] and [outputs]; block by block, so that little of it is ever floats."""
        outputs, inputs = weight.shape
        kind, parts = self._kind_of(weight)
        if kind == _NIBBLES:
            return self._pack_nibbles(weight, bias, parts)
        padding = -inputs % _TILE_BYTES if kind == _BYTES and parts else 0
        lines = inputs + padding
        panels = self._arena.take(self._library.talkahead_packed_bytes(lines, outputs, kind))
        self._kept.append(panels)
        # Small pieces of memory that stayed would keep the blocks around them from being used again.
        steps, offsets = torch.zeros(outputs), torch.zeros(outputs, dtype=torch.int32)
        for first in range(0, outputs, _BLOCK):
            own = slice(first, first + _BLOCK)
            values = plain(weight[own])
            if kind == _BYTES:
                steps[own] = self._byte_steps(values)
                values = (values / steps[own, None]).round()
                offsets[own] = (128 * values.sum(1)).to(torch.int32)
                values = functional.pad(values, (0, padding))
            elif kind == _PAIRED:
                values = values.bfloat16().float()
            start = panels.data_ptr() + self._library.talkahead_packed_bytes(lines, first, kind)
            self._library.talkahead_pack(values.data_ptr(), lines, len(values), kind, start)
        return Matrix(
            panels=panels.data_ptr(),
            inputs=inputs,
            outputs=outputs,
            kind=kind,
            parts=parts,
            scales=self._padded(steps) if kind == _BYTES else None,
            offsets=self._padded(offsets) if kind == _BYTES else None,
            bias=None if bias is None else self.keep(bias),
            reach=self.reach.data_ptr(),
        )

    def _byte_steps(self, weight: Tensor) -> Tensor:
        """What bytes of weights [outputs, inputs] are multiples of, [outputs]: 127 make the largest weight
        of an output, or fewer where neighbours would add up to more than the CPU's products allow."""
        steps = weight.abs().amax(1).clamp_min(1e-30) / 127
        most: int = self._library.talkahead_most_of_pair()
        if not most:
            return steps
        pairs = weight.reshape(len(weight), -1, 2).sum(2).abs().amax(1)
        return torch.maximum(steps, pairs / (most - 0.5))  # rounded, both may be half a step more

    def _pack_nibbles(self, weight: Tensor, bias: Tensor | None, parts: int) -> NativeStruct:
        outputs, inputs = weight.shape
        panels = self._arena.take(self._library.talkahead_packed_bytes(inputs, outputs, _NIBBLES))
        self._kept.append(panels)
        for first in range(0, outputs, _BLOCK):
            whole, scales = in_groups(plain(weight[first : first + _BLOCK]))
            start = panels.data_ptr() + self._library.talkahead_packed_bytes(inputs, first, _NIBBLES)
            self._library.talkahead_pack_nibbles(
                whole.data_ptr(), scales.data_ptr(), inputs, len(whole), start
            )
        return Matrix(
            panels=panels.data_ptr(),
            inputs=inputs,
            outputs=outputs,
            kind=_NIBBLES,
            parts=parts,
            scales=None,
            offsets=None,
            bias=None if bias is None else self.keep(bias),
            reach=self.reach.data_ptr(),
        )

    def _kind_of(self, weight: Tensor) -> tuple[int, int]:
        """How it lies, and `parts` of the matrix. What fills no groups of four bits lies as bytes."""
        if self._precision is INT4 and weight.shape[1] % GROUP == 0:
            return _NIBBLES, int(self._in_tiles)
        if self._precision in (torch.int8, INT4):
            return _BYTES, int(self._in_tiles)
        in_tiles = self._in_tiles and weight.shape[1] * 2 % _TILE_BYTES == 0
        if self._precision is torch.bfloat16:
            return _PAIRED, int(in_tiles)
        if not is_narrow(weight):
            return _FLOAT32, 0
        return (_PAIRED, _PARTS) if in_tiles else (_BFLOAT16, 0)

    def _padded(self, column: Tensor) -> int:
        """[outputs], zero up to a whole panel."""
        panel = self._library.talkahead_panel()
        self._kept.append(functional.pad(column, (0, -len(column) % panel)))
        return self._kept[-1].data_ptr()


def in_groups(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Weights [outputs, inputs] as whole numbers from -8 to 7, and the scales of their groups [outputs,
    inputs / GROUP], which bfloat16 holds. A group's largest weight becomes -8."""
    groups = weight.view(len(weight), -1, GROUP)
    largest = groups.gather(2, groups.abs().argmax(2, keepdim=True))
    scales = (largest / -8).bfloat16().float()
    whole = (groups / torch.where(scales == 0, 1, scales)).round().clamp(-8, 7)
    return whole.flatten(1).contiguous(), scales[..., 0].contiguous()


def plain(tensor: Tensor) -> Tensor:
    return tensor.detach().to("cpu", torch.float32).contiguous()


def is_narrow(tensor: Tensor) -> bool:
    """Whether bfloat16 holds it exactly."""
    return tensor.dtype is torch.bfloat16 or torch.equal(tensor.to(torch.bfloat16).to(tensor.dtype), tensor)
