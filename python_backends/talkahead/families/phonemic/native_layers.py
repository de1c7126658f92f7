"""Layers of the family's networks as `native/frames.h` has them."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from talkahead.backbone.native_decoder import can_multiply
from talkahead.backbone.native_matrix import MatrixPacker
from talkahead.families.phonemic.frame_block import CausalBlock, FrameBlock
from talkahead.native_declarations import NativeStruct, native_struct

_SOURCE = Path(__file__).parent / "native" / "frames.h"
_Norm, Block = (native_struct(_SOURCE, name) for name in ("norm", "block"))


def usual_precision() -> torch.dtype:
    """Of products, where none is asked for: bfloat16 where the CPU multiplies it, else float32."""
    return torch.bfloat16 if can_multiply(torch.bfloat16) else torch.float32


def native_norm(packer: MatrixPacker, norm: nn.LayerNorm) -> NativeStruct:
    return _Norm(weight=packer.keep(norm.weight), bias=packer.keep(norm.bias))


def native_linear(packer: MatrixPacker, layer: nn.Linear) -> NativeStruct:
    return packer.pack(layer.weight, layer.bias)


def native_block(packer: MatrixPacker, block: nn.Module) -> NativeStruct:
    """Of frames before its own alone, or around it."""
    assert isinstance(block, CausalBlock | FrameBlock)
    mix, out = (native_linear(packer, layer) for layer in (block.mix, block.out))
    return Block(norm=native_norm(packer, block.norm), mix=mix, out=out)
