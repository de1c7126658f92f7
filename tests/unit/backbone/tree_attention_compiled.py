"""Compiles the attention kernel for GPUs that need not be there; prints what each takes of shared memory."""

from __future__ import annotations

import json

import torch
import triton
from talkahead.backbone import tree_attention_kernel as kernel
from talkahead.backbone.tree_attention_kernel import STAGES, blocks_of
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

ARCHITECTURES = (80, 90)
TYPES = {torch.float32: "*fp32", torch.bfloat16: "*bf16"}
SIZES = {torch.float32: (8, 4, 128, 300), torch.bfloat16: (8, 3, 64, 1100)}
"""Nodes, groups, width of a head and positions."""
POINTERS = {"slots": "*i64", "lengths": "*i64", "seen": "*i8"}


def shared_memory(name: str, dtype: torch.dtype, architecture: int) -> int:
    """Of a kernel, in bytes."""
    blocks = blocks_of(*SIZES[dtype], dtype.itemsize)
    function = getattr(kernel, name)
    signature = {one: _type_of(one, dtype, blocks) for one in function.arg_names}
    constants = {one: value for one, value in blocks.items() if one in signature}
    source = ASTSource(fn=function, signature=signature, constexprs=constants)
    target = GPUTarget("cuda", architecture, 32)
    options = {"num_stages": STAGES} if name == "_attend" else {}
    return int(triton.compile(source, target=target, options=options).metadata.shared)


def _type_of(argument: str, dtype: torch.dtype, blocks: dict[str, int]) -> str:
    if argument in blocks:
        return "constexpr"
    if argument.endswith("_stride"):
        return "i32"
    return POINTERS.get(argument, TYPES[dtype] if argument in ("keys", "values") else "*fp32")


if __name__ == "__main__":
    taken = {
        f"{name} {dtype} {architecture}": shared_memory(name, dtype, architecture)
        for architecture in ARCHITECTURES
        for name, dtype in (
            ("_attend", torch.float32),
            ("_attend", torch.bfloat16),
            ("_merge", torch.bfloat16),
        )
    }
    print(json.dumps(taken))
