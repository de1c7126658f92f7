"""Attention of a step alone: the kernel over slots, and torch's two over as many positions as the longest
has."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.backbone.tree_attention import AttentionShape, kernel_for
from torch import Tensor
from torch.nn import functional
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

KERNEL, TORCH = "kernel over slots", "torch's scaled_dot_product_attention"
FLEX = "torch's FlexAttention"


def attentions(
    config: DecoderConfig, rows: int, nodes: int, length: int, positions: int, device: torch.device
) -> Iterator[tuple[str, Callable[[], object]]]:
    """Each by its name. Torch's is given what it would have to be told: where slots lie side by side, and how
    long the longest is.
    """
    dim, heads, kv_heads = config.head_dim, config.num_attention_heads, config.num_key_value_heads
    queries = torch.randn((rows, nodes, heads, dim), device=device)
    keys, values = torch.randn((2, rows, kv_heads, positions, dim), dtype=torch.bfloat16, device=device)
    slots, lengths = torch.arange(rows, device=device), torch.full((rows,), length, device=device)
    ancestors = torch.tril(torch.ones((nodes, nodes), dtype=torch.bool, device=device))
    shape = AttentionShape(heads, kv_heads, dim, positions, nodes)
    kernel = kernel_for(device, torch.bfloat16, shape)
    if kernel is not None:
        sees = ancestors.expand(rows, nodes, nodes)
        yield KERNEL, lambda: kernel(queries, keys, values, slots, lengths, sees)
    span = length + nodes
    past = torch.ones((nodes, length), dtype=torch.bool, device=device)
    mask = torch.cat([past, ancestors], dim=1)

    def attend() -> Tensor:
        return functional.scaled_dot_product_attention(
            queries.transpose(1, 2).to(torch.bfloat16),
            keys[:, :, :span],
            values[:, :, :span],
            attn_mask=mask,
            scale=1.0,
            enable_gqa=heads != kv_heads,
        )

    yield TORCH, attend
    yield FLEX, _flex(queries, keys[:, :, :span], values[:, :, :span], ancestors, length)


def _flex(
    queries: Tensor, keys: Tensor, values: Tensor, ancestors: Tensor, length: int
) -> Callable[[], Tensor]:
    """Of queries [S, N, H, d], keys and values [S, K, span, d]; compiled when it is first called. Its mask is
    made before, as steps of one tree would share it."""
    rows, nodes, heads, _ = queries.shape

    def sees(row: Tensor, head: Tensor, node: Tensor, place: Tensor) -> Tensor:
        after = place - length
        return (after < 0) | ancestors[node, after.clamp(0, nodes - 1)]

    mask = create_block_mask(sees, rows, None, nodes, keys.shape[2], device=queries.device)
    compiled = torch.compile(flex_attention) if queries.device.type == "cuda" else flex_attention

    def attend() -> Tensor:
        attended: Tensor = compiled(
            queries.transpose(1, 2).to(keys.dtype),
            keys,
            values,
            block_mask=mask,
            scale=1.0,
            enable_gqa=heads != keys.shape[1],
        )
        return attended

    return attend
