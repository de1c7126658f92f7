"""Attention of a step alone: the kernel over slots, and torch's over as many positions as the longest has."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.backbone.tree_attention import AttentionShape, kernel_for
from torch import Tensor
from torch.nn import functional

KERNEL, TORCH = "kernel over slots", "torch's scaled_dot_product_attention"


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
