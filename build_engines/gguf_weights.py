"""Weights in llama.cpp's files (GGUF) under Hugging Face's names, as safetensors.

What is quantised there becomes bfloat16. Served in int4, weights of Q4_0 are the same whole numbers again,
with scales that bfloat16 rounds.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from safetensors.torch import save_file
from talkahead.backbone.checkpoint import HEAD, tensor_shapes
from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.errors import ArtifactMismatch

if TYPE_CHECKING:  # an extra, which nothing else here needs
    from gguf import GGUFReader, ReaderTensor

_ARCHITECTURES = ("llama", "qwen2", "qwen3")
"""By which names we know tensors; they are those of `model_type` as well."""
_DERIVED = frozenset({"rope_freqs.weight"})
"""What follows from the config."""


def write_safetensors(path: Path, config: DecoderConfig, target: Path) -> None:
    """Writes a GGUF file's tensors, of a decoder as `config` has it, to `target`.

    Raises ArtifactMismatch for a file that is cut short, for another architecture, for a tensor that the
    decoder does not have or that is quantised in a way that cannot be read. Whether all are there is for
    whoever reads `target`.
    """
    import gguf

    try:
        file = gguf.GGUFReader(path)
    except (ValueError, OSError, IndexError) as error:
        raise ArtifactMismatch(f"{path} is not a whole GGUF file: {error}") from error
    architecture = _architecture(file)
    if architecture != config.model_type or architecture not in _ARCHITECTURES:
        raise ArtifactMismatch(
            f"{path}: general.architecture is {architecture}, where config.json has model_type "
            f"{config.model_type}; allowed: the same, one of {', '.join(_ARCHITECTURES)}"
        )
    kind = next(one for one, name in gguf.MODEL_ARCH_NAMES.items() if name == architecture)
    names = gguf.get_tensor_name_map(kind, config.num_hidden_layers)
    own = {names.get_name(name, (".weight", ".bias")): name for name in (*tensor_shapes(config), HEAD)}
    tensors = {}
    for tensor in file.tensors:
        if tensor.name in _DERIVED:
            continue
        if tensor.name not in own:
            raise ArtifactMismatch(f"{path}: {tensor.name} is no tensor of a {config.model_type}")
        name = own[tensor.name]
        values = _rotated_as_ours(_wide(path, tensor), name, architecture, config)
        tensors[name] = torch.from_numpy(values).to(torch.bfloat16)
    save_file(tensors, target)


def _architecture(file: GGUFReader) -> str:
    field = file.get_field("general.architecture")
    return "unknown" if field is None else str(field.contents())


def _wide(path: Path, tensor: ReaderTensor) -> npt.NDArray[np.float32]:
    import gguf

    try:
        wide = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
    except NotImplementedError as error:
        raise ArtifactMismatch(
            f"{path}: {tensor.name} is quantised as {tensor.tensor_type.name}, which cannot be read"
        ) from error
    return np.array(wide, np.float32)


def _rotated_as_ours(
    values: npt.NDArray[np.float32], name: str, architecture: str, config: DecoderConfig
) -> npt.NDArray[np.float32]:
    """Rows of each head of a Llama's queries and keys in Hugging Face's order, where what is rotated together
    is half a head apart; llama.cpp has it side by side, but for the other architectures."""
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    count = next((heads[part] for part in heads if f".{part}." in name), None)
    if architecture != "llama" or count is None:
        return values
    pairs = values.reshape(count, -1, 2, *values.shape[1:])
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(values.shape)
