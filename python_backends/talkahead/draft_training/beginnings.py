"""What drafts begin from: parts of a talker, read without the rest of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from talkahead.backbone.checkpoint import Checkpoint
from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.backbone.llama import Llama
from talkahead.errors import TalkaheadError


def check_layers(talker: DecoderConfig, layers: Sequence[int]) -> None:
    """Raises TalkaheadError where no draft can begin from these layers."""
    if layers and (talker.has_qkv_bias or talker.attention_bias or talker.mlp_bias or talker.has_qk_norm):
        raise TalkaheadError(
            "the talker's layers have biases or norms that the layers of this draft have not "
            f"({talker.model_type}); allowed for such a talker: --drafter heads"
        )
    if layers and max(layers) >= talker.num_hidden_layers:
        raise TalkaheadError(
            f"--heads {len(layers)}: a draft model is cut from the talker's layers; allowed: 1 to "
            f"{talker.num_hidden_layers}"
        )


def part_of(talker: Path, layers: Sequence[int]) -> Llama:
    """Embeddings, some layers, last norm and head of the talker in a folder, in float32 and frozen."""
    checkpoint = Checkpoint(talker)
    whole = checkpoint.config
    with torch.device("meta"):
        part = Llama(
            replace(whole, num_hidden_layers=len(layers), model_type="llama", tie_word_embeddings=False)
        )
    state = {
        name: checkpoint[_name_in_whole(name, layers)].to(torch.float32, copy=True)
        for name in part.state_dict()
    }
    part.load_state_dict(state, assign=True)
    return part.eval().requires_grad_(False)


def _name_in_whole(name: str, layers: Sequence[int]) -> str:
    """`model.layers.0.mlp...` is a weight of the first of `layers`."""
    prefix = "model.layers."
    if not name.startswith(prefix):
        return name
    index, _, rest = name.removeprefix(prefix).partition(".")
    return f"{prefix}{layers[int(index)]}.{rest}"
