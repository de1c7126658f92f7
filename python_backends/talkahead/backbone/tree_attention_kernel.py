"""Attention of a step's trees over keys and values by slot, as a kernel in OpenAI's Triton.

It reads each slot's own length where it lies, on the device: the host is asked for none, and nothing is read
after it. This module alone imports `triton`; `tree_attention` says where it fits.

Shapes: S running rows, N nodes of a tree, H query heads, K KV heads with G query heads each, d head size, R
slots of T positions, P parts of a long slot, B queries of a block.
"""

from __future__ import annotations

import os

import torch
import triton
from torch import Tensor
from triton import language as tl

CHUNK = 512
"""Positions of one part. Parts lie where they lie whatever the company and the lengths, so that the order of
a row's sums does not depend on them."""
_BLOCK_BYTES, _MOST_POSITIONS, STAGES = 1 << 13, 64, 2
"""Of the keys that are read at once, and how many such reads are under way: what this takes of a processor's
shared memory, every GPU has."""
_WIDENS = os.environ.get("TRITON_INTERPRET") == "1"
"""Triton's interpreter keeps bfloat16 as whole numbers, and would multiply these."""
_LEAST = 16
"""The smallest side of a product of blocks."""
_MOST_QUERIES = 64
"""Of one block: more would not stay in registers."""


def attend(
    queries: Tensor, keys: Tensor, values: Tensor, slots: Tensor, lengths: Tensor, ancestors: Tensor
) -> Tensor:
    """Each node sees what lies before its slot's length, and of the nodes after that its own ancestors.

    Args:
        queries: [S, N, H, d], the last two dimensions contiguous; 1 / sqrt(d) is in them.
        keys, values: [R, K, T, d] of one layer, float32, float16 or bfloat16; products are of this type, and
            sums float32.
        slots: int64 [S].
        lengths: int64 [R].
        ancestors: bool [S, N, N], node by node whom it sees, itself among them; rows may share one (a stride
            of 0).

    Returns:
        [S, N, H, d] of the queries' type, contiguous.
    """
    rows, nodes, heads, dim = queries.shape
    kv_heads, positions = keys.shape[1], keys.shape[2]
    blocks = blocks_of(nodes, heads // kv_heads, dim, positions, keys.element_size())
    attended = torch.empty((rows, nodes, heads, dim), dtype=queries.dtype, device=queries.device)
    sums = highest = totals = attended  # which a single part leaves alone
    if blocks["PARTS"] > 1:
        shape = (blocks["PARTS"], rows, kv_heads, blocks["TILES"] * blocks["QUERIES"])
        sums = torch.empty((*shape, dim), dtype=torch.float32, device=queries.device)
        highest, totals = (torch.empty(shape, dtype=torch.float32, device=queries.device) for _ in range(2))
    seen = ancestors.view(torch.int8)
    with torch.cuda.device_of(queries):  # type: ignore[no-untyped-call]  # the thread's own may be another
        _attend[(rows, kv_heads * blocks["TILES"], blocks["PARTS"])](
            *(queries, keys, values, slots, lengths, seen, attended, sums, highest, totals),
            *(queries.stride(0), queries.stride(1), keys.stride(0), keys.stride(1)),
            *(seen.stride(0), seen.stride(1)),
            num_stages=STAGES,
            **blocks,
        )
        if blocks["PARTS"] > 1:
            merged = {name: blocks[name] for name in _merge.arg_names if name in blocks}
            _merge[(rows, kv_heads * blocks["TILES"])](sums, highest, totals, attended, **merged)
    return attended


def blocks_of(nodes: int, groups: int, dim: int, positions: int, element_size: int) -> dict[str, int]:
    """What the kernel is compiled for.

    Args:
        groups: G.
        positions: that a slot has room for.
        element_size: bytes of a key's value.
    """
    queries = min(max(triton.next_power_of_2(groups * nodes), _LEAST), _MOST_QUERIES)
    return {
        "NODES": nodes,
        "GROUPS": groups,
        "DIM": dim,
        "QUERIES": queries,
        "PARTS": triton.cdiv(positions, CHUNK),
        "TILES": triton.cdiv(groups * nodes, queries),
        "NODE_BLOCK": max(triton.next_power_of_2(nodes), _LEAST),
        "POSITIONS": min(max(_BLOCK_BYTES // (dim * element_size), _LEAST), _MOST_POSITIONS),
        "CHUNK": CHUNK,
        "WIDENS": _WIDENS,
    }


@triton.jit
def _attend(
    queries: tl.tensor,
    keys: tl.tensor,
    values: tl.tensor,
    slots: tl.tensor,
    lengths: tl.tensor,
    seen: tl.tensor,
    attended: tl.tensor,
    sums: tl.tensor,
    highest: tl.tensor,
    totals: tl.tensor,
    row_stride: tl.tensor,
    node_stride: tl.tensor,
    slot_stride: tl.tensor,
    head_stride: tl.tensor,
    seen_row_stride: tl.tensor,
    seen_node_stride: tl.tensor,
    NODES: tl.constexpr,
    GROUPS: tl.constexpr,
    DIM: tl.constexpr,
    QUERIES: tl.constexpr,
    PARTS: tl.constexpr,
    TILES: tl.constexpr,
    NODE_BLOCK: tl.constexpr,
    POSITIONS: tl.constexpr,
    CHUNK: tl.constexpr,
    WIDENS: tl.constexpr,
) -> None:
    """One part of a row's positions for a block of the queries that share a KV head; the first part sees the
    tree as well."""
    row, part = tl.program_id(0), tl.program_id(2)
    head, tile = tl.program_id(1) // TILES, tl.program_id(1) % TILES
    slot = tl.load(slots + row)
    length = tl.load(lengths + slot)
    query, dims = tile * QUERIES + tl.arange(0, QUERIES), tl.arange(0, DIM)
    node, is_query = query % NODES, query < GROUPS * NODES
    own_head = head * GROUPS + query // NODES
    at = row.to(tl.int64) * row_stride + node * node_stride + own_head * DIM
    q = tl.load(queries + at[:, None] + dims[None, :], mask=is_query[:, None], other=0.0)
    q = q.to(keys.dtype.element_ty)
    own_keys = keys + slot * slot_stride + head * head_stride
    own_values = values + slot * slot_stride + head * head_stride

    top = tl.full([QUERIES], -float("inf"), tl.float32)
    total = tl.zeros([QUERIES], tl.float32)
    weighted = tl.zeros([QUERIES, DIM], tl.float32)
    beyond = tl.minimum((part + 1) * CHUNK, length)
    for first in range(part * CHUNK, beyond, POSITIONS):
        place = first + tl.arange(0, POSITIONS)
        is_there = place < beyond
        lines = place[:, None] * DIM + dims[None, :]
        k = tl.load(own_keys + lines, mask=is_there[:, None], other=0.0)
        v = tl.load(own_values + lines, mask=is_there[:, None], other=0.0)
        scores = _product(q, tl.trans(k), WIDENS)
        scores = tl.where(is_there[None, :], scores, -float("inf"))
        top, total, weighted = _joined(scores, v, top, total, weighted, WIDENS)
    if part == 0:
        other = tl.arange(0, NODE_BLOCK)
        lines = (length + other)[:, None] * DIM + dims[None, :]
        k = tl.load(own_keys + lines, mask=other[:, None] < NODES, other=0.0)
        v = tl.load(own_values + lines, mask=other[:, None] < NODES, other=0.0)
        sees = seen + row.to(tl.int64) * seen_row_stride + node[:, None] * seen_node_stride + other[None, :]
        is_seen = tl.load(sees, mask=is_query[:, None] & (other[None, :] < NODES), other=0)
        scores = _product(q, tl.trans(k), WIDENS)
        scores = tl.where(is_seen != 0, scores, -float("inf"))
        top, total, weighted = _joined(scores, v, top, total, weighted, WIDENS)

    if PARTS == 1:
        out = (
            attended
            + ((row.to(tl.int64) * NODES + node) * GROUPS * (tl.num_programs(1) // TILES) + own_head)[:, None]
            * DIM
        )
        share = weighted / tl.where(total > 0.0, total, 1.0)[:, None]
        tl.store(out + dims[None, :], share.to(attended.dtype.element_ty), mask=is_query[:, None])
    else:
        line = (part * tl.num_programs(0) + row).to(tl.int64) * tl.num_programs(1) + tl.program_id(1)
        line = line * QUERIES + tl.arange(0, QUERIES)
        tl.store(highest + line, top)
        tl.store(totals + line, total)
        tl.store(sums + line[:, None] * DIM + dims[None, :], weighted)


@triton.jit
def _joined(
    scores: tl.tensor,
    v: tl.tensor,
    top: tl.tensor,
    total: tl.tensor,
    weighted: tl.tensor,
    WIDENS: tl.constexpr,
) -> tl.tensor:
    """Online softmax: the highest score so far, the sum of weights under it, and the weighted values."""
    higher = tl.maximum(top, tl.max(scores, 1))
    # Nothing has been seen yet where it is -inf, which must not be subtracted from itself.
    level = tl.where(higher == -float("inf"), 0.0, higher)
    weights, kept = tl.exp(scores - level[:, None]), tl.exp(top - level)
    weighted = weighted * kept[:, None] + _product(weights.to(v.dtype), v, WIDENS)
    return higher, total * kept + tl.sum(weights, 1), weighted


@triton.jit
def _product(one: tl.tensor, other: tl.tensor, WIDENS: tl.constexpr) -> tl.tensor:
    """Of blocks, float32."""
    if WIDENS:
        one, other = one.to(tl.float32), other.to(tl.float32)
    return tl.dot(one, other, input_precision="ieee")


@triton.jit
def _merge(
    sums: tl.tensor,
    highest: tl.tensor,
    totals: tl.tensor,
    attended: tl.tensor,
    NODES: tl.constexpr,
    GROUPS: tl.constexpr,
    DIM: tl.constexpr,
    QUERIES: tl.constexpr,
    PARTS: tl.constexpr,
    TILES: tl.constexpr,
) -> None:
    """The parts of a block of queries, one after the other."""
    row, head, tile = tl.program_id(0), tl.program_id(1) // TILES, tl.program_id(1) % TILES
    query, dims = tile * QUERIES + tl.arange(0, QUERIES), tl.arange(0, DIM)
    node, own_head = query % NODES, head * GROUPS + query // NODES
    top = tl.full([QUERIES], -float("inf"), tl.float32)
    total = tl.zeros([QUERIES], tl.float32)
    weighted = tl.zeros([QUERIES, DIM], tl.float32)
    for part in range(PARTS):
        line = (part * tl.num_programs(0) + row).to(tl.int64) * tl.num_programs(1) + tl.program_id(1)
        line = line * QUERIES + tl.arange(0, QUERIES)
        own = tl.load(highest + line)
        higher = tl.maximum(top, own)
        level = tl.where(higher == -float("inf"), 0.0, higher)
        kept, added = tl.exp(top - level), tl.exp(own - level)
        total = total * kept + tl.load(totals + line) * added
        weighted = (
            weighted * kept[:, None] + tl.load(sums + line[:, None] * DIM + dims[None, :]) * added[:, None]
        )
        top = higher
    heads = GROUPS * (tl.num_programs(1) // TILES)
    out = attended + ((row.to(tl.int64) * NODES + node) * heads + own_head)[:, None] * DIM + dims[None, :]
    share = weighted / tl.where(total > 0.0, total, 1.0)[:, None]
    tl.store(out, share.to(attended.dtype.element_ty), mask=(query < GROUPS * NODES)[:, None])
