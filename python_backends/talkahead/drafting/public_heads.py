"""Draft heads under the names of their authors (Cai et al. 2024): what `medusa_lm_head.pt` holds.

`2.0.linear.weight` and `2.0.linear.bias` are the first block of the third head, and `2.1.weight`, where it
has one block, its layer onto the vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from talkahead.drafting.draft_heads import DraftHeads
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
    names = _own_names(count, blocks)
    if not names or names.keys() != state.keys():
        strange = sorted(names.keys() ^ state.keys()) or ["0.0.linear.weight"]
        raise ArtifactMismatch(f"draft heads of {count}: missing or unknown: {', '.join(strange)}")
    known, width = state[f"0.{blocks}.weight"].shape
    with torch.device("meta"):
        whole = DraftHeads(count, width, known, block_size=None, num_blocks=blocks, sees_tokens=False)
    for name, own in names.items():
        wanted, found = list(whole.get_parameter(own).shape), list(state[name].shape)
        if wanted != found:
            raise ArtifactMismatch(f"draft heads: {name} is {found}, and must be {wanted}")
    if int(tokens.max()) >= known:
        raise ArtifactMismatch(f"draft heads: they know {known} tokens, the talker draws {int(tokens.max())}")
    heads = DraftHeads(count, width, len(tokens), block_size=None, num_blocks=blocks, sees_tokens=False)
    heads.load_state_dict(
        {
            own: state[name][tokens] if own.startswith("linears.") else state[name]
            for name, own in names.items()
        }
    )
    return heads.eval().requires_grad_(False)


def _own_names(count: int, blocks: int) -> dict[str, str]:
    """By public name."""
    names = {}
    for head in range(count):
        for block in range(blocks):
            for part in ("weight", "bias"):
                names[f"{head}.{block}.linear.{part}"] = f"inward.{head * blocks + block}.{part}"
        names[f"{head}.{blocks}.weight"] = f"linears.{head}.weight"
    return names
