"""A checkpoint of random weights in Hugging Face's layout, one shard for each layer."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import torch
from safetensors.torch import save_file
from talkahead.backbone.checkpoint import INDEX, tensor_shapes
from talkahead.backbone.decoder_config import NAME, DecoderConfig
from torch import Tensor

_SPREAD = 0.02


def write_random_checkpoint(config: DecoderConfig, folder: Path) -> None:
    """Writes bfloat16 weights; a folder that has its index is left as it is."""
    if (folder / INDEX).exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    (folder / NAME).write_text(json.dumps(config.to_hugging_face(), indent=2) + "\n", encoding="utf-8")
    shards: dict[str, dict[str, tuple[int, ...]]] = defaultdict(dict)
    for name, shape in tensor_shapes(config).items():
        shards[_shard(name)][name] = shape
    for file, own in shards.items():
        save_file({name: _random(name, shape) for name, shape in own.items()}, folder / file)
    places = {name: file for file, own in shards.items() for name in own}
    # The index comes last: with it the folder is whole.
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": places}), encoding="utf-8")


def _shard(name: str) -> str:
    parts = name.split(".")
    return f"layer-{parts[2]}.safetensors" if "layers" in parts else "tables.safetensors"


def _random(name: str, shape: tuple[int, ...]) -> Tensor:
    if name.endswith("norm.weight"):
        return torch.ones(shape, dtype=torch.bfloat16)
    return torch.empty(shape, dtype=torch.bfloat16).normal_(std=_SPREAD)
