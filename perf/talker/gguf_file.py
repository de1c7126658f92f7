"""The talker's weights as llama.cpp reads them."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt
from gguf import GGMLQuantizationType, GGUFWriter
from talkahead.backbone.checkpoint import HEAD, Checkpoint
from talkahead.backbone.decoder_config import DecoderConfig

TYPES = {
    "float32": GGMLQuantizationType.F32,
    "bfloat16": GGMLQuantizationType.BF16,
    "float16": GGMLQuantizationType.F16,
    "Q8_0": GGMLQuantizationType.Q8_0,
    "Q4_0": GGMLQuantizationType.Q4_0,
}
"""Of the matrices."""


def write_gguf(talker: Path, precision: str, path: Path) -> None:
    """Writes a version folder of the talker as one file; vectors, which are norms, stay in float32.

    Its tokens are codes, which no text is made of: the file has no tokenizer.
    """
    state = Checkpoint(talker)
    config = state.config
    writer = GGUFWriter(path, "llama")
    _describe(writer, config)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    for name, tensor in state.items():
        if name == HEAD and config.tie_word_embeddings:
            continue
        values = tensor.float().numpy()
        for part, num_heads in heads.items():
            if part in name:
                values = _interleaved(values, num_heads)
        kind = TYPES[precision] if values.ndim > 1 else GGMLQuantizationType.F32
        writer.add_tensor(
            names.get_name(name, (".weight",)), gguf.quants.quantize(values, kind), raw_dtype=kind
        )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _describe(writer: GGUFWriter, config: DecoderConfig) -> None:
    writer.add_context_length(config.max_position_embeddings)
    writer.add_vocab_size(config.vocab_size)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_rope_freq_base(config.rope_theta)
    writer.add_tokenizer_model("none")


def _interleaved(weight: npt.NDArray[np.float32], num_heads: int) -> npt.NDArray[np.float32]:
    """Rows of each head in the order that llama.cpp rotates them in: neighbours make a pair, which in the
    checkpoint's layout is half a head apart."""
    return weight.reshape(num_heads, 2, -1, weight.shape[1]).swapaxes(1, 2).reshape(weight.shape)
