"""Small checkpoints of XCodec2's kind, random weights, as transformers' own `save_pretrained` writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

SMALL: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 16,
    "encoder_hidden_size": 2,
    "quantization_dim": 96,
    "semantic_model_config": {
        "model_type": "wav2vec2-bert",
        "hidden_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 64,
    },
}


def write_folder(folder: Path, model_class: type[PreTrainedModel], **config: object) -> PreTrainedModel:
    torch.manual_seed(0)
    model = model_class(model_class.config_class(**{**SMALL, **config})).eval()
    for part in model.modules():
        # The library's own weights are so small at first that all codes sound alike.
        if isinstance(part, nn.Linear | nn.Conv1d):
            part.reset_parameters()
    with torch.no_grad():
        model.quantizer.project_in.weight.mul_(50)  # nor does all speech encode to one code then
    model.save_pretrained(folder)
    return model


def snr_db(audio: torch.Tensor, wanted: torch.Tensor) -> float:
    return float(10 * torch.log10(wanted.square().mean() / (audio - wanted).square().mean()))
