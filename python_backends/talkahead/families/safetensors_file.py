"""A safetensors file written part by part, so that its tensors need not be in memory together.

The format: eight bytes that say how long the header is, a JSON header, then all bytes in its order.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from talkahead.families.imported_checkpoint import Tensors

_NAMES = {torch.bfloat16: "BF16", torch.float16: "F16", torch.float32: "F32", torch.float64: "F64"}
_ALIGNMENT = 8


def narrowed(tensor: Tensor) -> Tensor:
    """A matrix in bfloat16, which products of talkers are computed in; vectors, of norms and biases, take
    next to nothing and stay as they are."""
    return tensor.to(torch.bfloat16) if tensor.dim() > 1 else tensor


def write_tensors(path: Path, tensors: Tensors, *, narrows: bool = False) -> None:
    """Each tensor in the type that it has, or `narrowed`."""
    convert = narrowed if narrows else _as_it_is
    header = json.dumps(_header(tensors, convert)).encode()
    header += b" " * (-len(header) % _ALIGNMENT)
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        for parts in tensors.values():
            for part in parts:
                convert(part).contiguous().view(torch.uint8).numpy().tofile(file)


def _as_it_is(tensor: Tensor) -> Tensor:
    return tensor


def _header(tensors: Tensors, convert: Callable[[Tensor], Tensor]) -> dict[str, Any]:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    begin = 0
    for name, parts in tensors.items():
        shape = [sum(len(part) for part in parts), *parts[0].shape[1:]]
        kept = convert(parts[0][:1]).dtype
        end = begin + prod(shape) * kept.itemsize
        header[name] = {"dtype": _NAMES[kept], "shape": shape, "data_offsets": [begin, end]}
        begin = end
    return header
