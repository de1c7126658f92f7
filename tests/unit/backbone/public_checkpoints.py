"""Small decoders with random weights, in the layouts that transformers itself writes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

transformers = pytest.importorskip("transformers")

SIZES = {
    **{"vocab_size": 50, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3},
    **{"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128},
    **{"eos_token_id": 49, "bos_token_id": None, "pad_token_id": None},
}
LLAMA3 = {
    **{"rope_type": "llama3", "rope_theta": 10_000.0, "factor": 4.0},
    **{"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64},
}
"""Of the eight pairs of a head of 16 values, so long a first context keeps the speed of two, slows one partly
and the other five wholly."""


KINDS = {
    "llama 3, tied": transformers.LlamaConfig(**SIZES, rope_parameters=LLAMA3, tie_word_embeddings=True),
    "llama, linear": transformers.LlamaConfig(
        **SIZES, rope_parameters={"rope_type": "linear", "rope_theta": 10_000.0, "factor": 8.0}
    ),
    "llama with biases": transformers.LlamaConfig(**SIZES, head_dim=32, attention_bias=True, mlp_bias=True),
    "qwen2": transformers.Qwen2Config(**SIZES),
    "qwen3": transformers.Qwen3Config(**SIZES, head_dim=32, rope_parameters={"rope_theta": 1e6}),
    "qwen3 with biases, tied": transformers.Qwen3Config(
        **SIZES, head_dim=32, attention_bias=True, tie_word_embeddings=True
    ),
}


def saved(kind: str, folder: Path, dtype: torch.dtype = torch.float64, shard: str = "50GB") -> Path:
    """Writes a decoder whose probabilities differ, and whose biases and norms matter."""
    model = transformers.AutoModelForCausalLM.from_config(KINDS[kind], dtype=torch.float32)
    torch.manual_seed(2)
    with torch.no_grad():
        for name, value in model.named_parameters():
            if "norm" in name:
                value.uniform_(0.5, 1.5)
            elif "embed" in name:
                value.normal_()
            else:
                value.normal_(std=0.5 if name.endswith("bias") else 0.2)
    model.to(dtype).save_pretrained(folder, max_shard_size=shard)
    return folder
