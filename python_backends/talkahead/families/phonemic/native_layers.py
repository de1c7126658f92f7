"""Layers of the family's networks as `native/frames.h` has them."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from talkahead.backbone.native_decoder import has_tiles, narrowest_precision
from talkahead.backbone.native_matrix import MatrixPacker
from talkahead.families.phonemic.frame_block import CausalBlock, FrameBlock
from talkahead.native_declarations import NativeStruct, native_struct

_SOURCE = Path(__file__).parent / "native" / "frames.h"
_Norm, Block = (native_struct(_SOURCE, name) for name in ("norm", "block"))


def usual_precision() -> torch.dtype:
    """Of products, where none is asked for: bfloat16 in tiles, else the narrowest.

    On a Xeon without tiles the codec in bytes takes 0.4 of its time in bfloat16 or float32, and on its avx2
    path 0.9 of float32's. The audio is 35 dB above the difference, and is heard and judged alike.
    """
    return torch.bfloat16 if has_tiles() else narrowest_precision()


def native_norm(packer: MatrixPacker, norm: nn.LayerNorm) -> NativeStruct:
    return _Norm(weight=packer.keep(norm.weight), bias=packer.keep(norm.bias))


def native_linear(packer: MatrixPacker, layer: nn.Linear) -> NativeStruct:
    return packer.pack(layer.weight, layer.bias)


def native_block(packer: MatrixPacker, block: nn.Module) -> NativeStruct:
    """Of frames before its own alone, or around it."""
    assert isinstance(block, CausalBlock | FrameBlock)
    mix, out = (native_linear(packer, layer) for layer in (block.mix, block.out))
    return Block(norm=native_norm(packer, block.norm), mix=mix, out=out)
