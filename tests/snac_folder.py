"""A small checkpoint of SNAC, random weights, as its library's are downloaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

PUBLISHED: dict[str, Any] = {
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
SMALL = {**PUBLISHED, "encoder_dim": 2, "decoder_dim": 32, "codebook_size": 64}


def published_folder(folder: Path, config: dict[str, Any] = SMALL) -> Path:
    """As the library's checkpoints are downloaded, with noise that is heard."""
    import snac

    torch.manual_seed(0)
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    torch.save(snac.SNAC(**config).state_dict(), folder / "pytorch_model.bin")
    return folder
