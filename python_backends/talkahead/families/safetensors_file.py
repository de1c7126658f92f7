"""A safetensors file written part by part, so that its tensors need not be in memory together.

The format: eight bytes that say how long the header is, a JSON header, then all bytes in its order.
"""

from __future__ import annotations

import json
from math import prod
from pathlib import Path
from typing import Any

import torch

from talkahead.families.imported_checkpoint import Tensors

_NAMES = {torch.bfloat16: "BF16", torch.float16: "F16", torch.float32: "F32", torch.float64: "F64"}
_ALIGNMENT = 8


def write_tensors(path: Path, tensors: Tensors) -> None:
    """Each tensor in the type that it has."""
    header = json.dumps(_header(tensors)).encode()
    header += b" " * (-len(header) % _ALIGNMENT)
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        for parts in tensors.values():
            for part in parts:
                part.contiguous().view(torch.uint8).numpy().tofile(file)


def _header(tensors: Tensors) -> dict[str, Any]:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    begin = 0
    for name, parts in tensors.items():
        shape = [sum(len(part) for part in parts), *parts[0].shape[1:]]
        end = begin + prod(shape) * parts[0].element_size()
        header[name] = {"dtype": _NAMES[parts[0].dtype], "shape": shape, "data_offsets": [begin, end]}
        begin = end
    return header
