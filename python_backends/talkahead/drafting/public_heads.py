"""Draft heads under the names of their authors (Cai et al. 2024): what `medusa_lm_head.pt` holds.

`2.0.linear.weight` and `2.0.linear.bias` are the first block of the third head, and `2.1.weight`, where it
has one block, its layer onto the vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from talkahead.drafting.draft_heads import DraftHeads
from talkahead.drafting.public_names import renamed
from talkahead.errors import ArtifactMismatch


def read_public_heads(state: Mapping[str, Tensor], tokens: Tensor) -> DraftHeads:
    """Heads in float32, ready for inference.

    Args:
        state: tensors by their public names.
        tokens: int64 [V], those of the public vocabulary that the talker draws, in its own order.

    Raises:
        ArtifactMismatch: a tensor is missing, unknown, or of another shape than those beside it.
    """
    count = len({name.split(".")[0] for name in state})
    blocks = sum(name.startswith("0.") and name.endswith(".linear.weight") for name in state)
    first = f"0.{blocks}.weight"
    if not blocks or first not in state:
        raise ArtifactMismatch("a published draft: missing: 0.0.linear.weight, or the layer behind head 0")
    known, width = state[first].shape
    with torch.device("meta"):
        public = DraftHeads(count, width, known, block_size=None, num_blocks=blocks, sees_tokens=False)
    own = renamed(state, _names(count, blocks), public)
    if int(tokens.max()) >= known:
        raise ArtifactMismatch(
            f"a published draft: it knows {known} tokens, and the talker draws {int(tokens.max())}"
        )
    heads = DraftHeads(count, width, len(tokens), block_size=None, num_blocks=blocks, sees_tokens=False)
    heads.load_state_dict(
        {name: value[tokens] if name.startswith("linears.") else value for name, value in own.items()}
    )
    return heads.eval().requires_grad_(False)


def _names(count: int, blocks: int) -> dict[str, str]:
    """Ours by public names."""
    names = {f"{head}.{blocks}.weight": f"linears.{head}.weight" for head in range(count)}
    for place in range(count * blocks):
        head, block = divmod(place, blocks)
        for part in ("weight", "bias"):
            names[f"{head}.{block}.linear.{part}"] = f"inward.{place}.{part}"
    return names
