"""Where the attention kernel over slots fits; elsewhere attention is written out in torch.

Shapes: S running rows, N nodes of a tree, H query heads, K KV heads, d head size, R slots of T positions.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Protocol

import torch
from torch import Tensor

_LOG = logging.getLogger(__name__)
_DTYPES = (torch.float32, torch.float16, torch.bfloat16)
_DIMS = (16, 32, 64, 128)
MOST_NODES = 128
"""Of a tree: they are looked at as one block."""


class TreeAttention(Protocol):
    """`tree_attention_kernel.attend`."""

    def __call__(
        self, queries: Tensor, keys: Tensor, values: Tensor, slots: Tensor, lengths: Tensor, ancestors: Tensor
    ) -> Tensor:
        """[S, N, H, d] of queries [S, N, H, d], keys and values [R, K, T, d], slots [S], lengths [R],
        ancestors [S, N, N]."""


@dataclass(frozen=True)
class AttentionShape:
    """What attention is asked for: query and KV heads, their width, positions of a slot, nodes of the largest
    tree."""

    heads: int
    kv_heads: int
    dim: int
    positions: int
    nodes: int


_USUAL = AttentionShape(heads=32, kv_heads=8, dim=64, positions=1024, nodes=8)
"""Of a talker of a billion weights."""


def kernel_for(device: torch.device, dtype: torch.dtype, shape: AttentionShape) -> TreeAttention | None:
    """The kernel, where it runs: on a CUDA device that has Triton, for keys of `dtype`. Else None, and on a
    CUDA device a line in the log.
    """
    if device.type != "cuda":
        return None
    problem = misfit(dtype, shape) or problem_with_kernel(device, dtype, shape)
    if problem is not None:
        _LOG.warning("attention looks at all positions of a slot, without its kernel: %s", problem)
        return None
    from talkahead.backbone.tree_attention_kernel import attend

    return attend


def problem_with_kernel(
    device: torch.device, dtype: torch.dtype = torch.bfloat16, shape: AttentionShape = _USUAL
) -> str | None:
    """Why a device does not run it, or None: it has computed the smallest and the largest tree there, for
    each of which it is compiled."""
    if find_spec("triton") is None:
        return "the Python package triton is not installed"
    try:
        _try(device, dtype, shape)
    except Exception as error:  # whatever compilers and drivers may raise: there is another way
        return f"it cannot run here: {type(error).__name__}: {error}"
    return None


def misfit(dtype: torch.dtype, shape: AttentionShape) -> str | None:
    """Why the kernel does not compute this, or None."""
    if dtype not in _DTYPES:
        return f"keys are {dtype}; allowed: {', '.join(map(str, _DTYPES))}"
    if shape.dim not in _DIMS:
        return f"heads are of {shape.dim}; allowed: {', '.join(map(str, _DIMS))}"
    if shape.nodes > MOST_NODES:
        return f"trees have up to {shape.nodes} nodes; allowed: up to {MOST_NODES}"
    return None


def _try(device: torch.device, dtype: torch.dtype, shape: AttentionShape) -> None:
    from talkahead.backbone.tree_attention_kernel import attend

    keys = torch.zeros((1, shape.kv_heads, shape.positions, shape.dim), dtype=dtype, device=device)
    whole = torch.zeros(1, dtype=torch.int64, device=device)
    for nodes in {1, shape.nodes}:
        queries = torch.zeros((1, nodes, shape.heads, shape.dim), device=device)
        ancestors = torch.eye(nodes, dtype=torch.bool, device=device)[None]
        if bool(attend(queries, keys, keys, whole, whole, ancestors).any()):
            raise ArithmeticError("a sum of zeros is not zero")
