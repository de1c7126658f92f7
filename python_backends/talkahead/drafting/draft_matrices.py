"""Matrices of drafts whose products C computes outside a decoder."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import Array

import torch
from torch import Tensor

from talkahead.backbone.native_decoder import can_multiply, decoder_library, has_tiles
from talkahead.backbone.native_matrix import INT4, Matrix, MatrixPacker, plain
from talkahead.native_declarations import NativeStruct


class DraftMatrices:
    """Packs matrices, and holds what C points at.

    In float32 and bfloat16 what meets them stays float32, and weights are what they are, rounded
    to bfloat16 in the latter; in int8 and int4 products are of whole numbers.

    Args:
        precision: of products; what the CPU does not multiply is float32.
    """

    def __init__(self, precision: torch.dtype) -> None:
        is_whole = precision in (torch.int8, INT4) and can_multiply(precision)
        self._is_rounded = precision is torch.bfloat16
        self._packer = MatrixPacker(
            decoder_library(), precision if is_whole else torch.float32, in_tiles=has_tiles()
        )

    def pack(self, weights: Sequence[Tensor]) -> Array[NativeStruct]:
        """From [outputs, inputs] each; one that is there several times is packed once."""
        packed: dict[int, NativeStruct] = {}
        matrices = (Matrix * len(weights))()
        for place, weight in enumerate(weights):
            if id(weight) not in packed:
                wide = plain(weight)
                packed[id(weight)] = self._packer.pack(wide.bfloat16().float() if self._is_rounded else wide)
            matrices[place] = packed[id(weight)]
        return matrices

    def keep(self, tensor: Tensor) -> int:
        """The address of a tensor's copy as plain floats, which lives as long as this."""
        return self._packer.keep(tensor)
