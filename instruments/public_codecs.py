"""Codecs of public families with random weights, as they are downloaded, at their published size."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from transformers import PreTrainedModel

SNAC: Mapping[str, Any] = {
    "sampling_rate": 24000,
    "encoder_dim": 48,
    "encoder_rates": [2, 4, 8, 8],
    "decoder_dim": 1024,
    "decoder_rates": [8, 8, 4, 2],
    "attn_window_size": None,
    "codebook_size": 4096,
    "codebook_dim": 8,
    "vq_strides": [4, 2, 1],
    "noise": True,
    "depthwise": True,
}
"""The published one at 24 kHz."""

_SPEAKING = ("acoustic_decoder.", "quantizer.")
_SPREAD = 0.02


def write_snac(folder: Path, config: Mapping[str, Any] = SNAC) -> Path:
    """As the library's checkpoints are, with noise that is heard; into a new folder."""
    import snac

    torch.manual_seed(0)
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    torch.save(snac.SNAC(**config).state_dict(), folder / "pytorch_model.bin")
    return folder


def write_decoder(folder: Path, model_class: type[PreTrainedModel]) -> None:
    """What speaks of XCodec2's kind, in half precision; what hears is left out."""
    assert model_class.config_class is not None
    config = model_class.config_class()
    config.save_pretrained(folder)
    with torch.device("meta"):
        state = model_class(config).state_dict()
    torch.manual_seed(0)
    weights = {
        name: torch.empty(value.shape, dtype=torch.float16).normal_(std=_SPREAD)
        for name, value in state.items()
        if name.startswith(_SPEAKING)
    }
    save_file(weights, folder / "model.safetensors")
