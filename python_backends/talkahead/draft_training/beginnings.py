"""What drafts begin from: parts of a talker, read without the rest of it, and drafts of before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from talkahead.backbone.checkpoint import Checkpoint
from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.backbone.llama import Llama
from talkahead.drafting.draft_files import CONFIG, WEIGHTS, read_json
from talkahead.errors import TalkaheadError
from talkahead.weights import load_float32


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


def take_over(network: nn.Module, drafter: str, start: Path) -> int:
    """Gives a draft the weights of the one in `start`, which may be of a talker with other tokens or layers.

    What stands together is taken together: where one matrix of an attention or of an output is of another
    shape, the others would tell it nothing.

    Returns:
        How many weights were taken; the others stay as they begin.

    Raises:
        TalkaheadError: it is of another drafter, or nothing of it fits.
    """
    kind = read_json(start / CONFIG)["kind"]
    if kind != drafter:
        raise TalkaheadError(f"--start {start} is a draft of {kind}, not of {drafter}")
    own, other = network.state_dict(), load_float32(start / WEIGHTS)
    apart = {_module(name) for name, value in own.items() if not _fits(other, name, value)}
    taken = {name: other[name] for name in own if _module(name) not in apart}
    if not taken:
        raise TalkaheadError(f"--start {start} is of another shape: none of its weights fits this draft")
    network.load_state_dict({**own, **taken})
    return sum(value.numel() for value in taken.values())


def _fits(other: Mapping[str, Tensor], name: str, value: Tensor) -> bool:
    return name in other and other[name].shape == value.shape


def _module(name: str) -> str:
    """`model.layers.0.self_attn` of `model.layers.0.self_attn.q_proj.weight`."""
    return name.rsplit(".", 2)[0]
