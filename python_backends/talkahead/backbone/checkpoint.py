"""A decoder's weights in Hugging Face's layout: one file, or shards and their index.

What the config asks for is there in its shape, and nothing else, before any of it is read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from talkahead.backbone import decoder_config
from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.errors import ArtifactMismatch

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
EMBEDDINGS = "model.embed_tokens.weight"
HEAD = "lm_head.weight"
NORM = "model.norm.weight"
NARROWING = "lm_head.narrowing.weight"
"""[r, D], of drafts alone: what it makes of a hidden state is what their head [V, r] reads."""
_DERIVED = (".rotary_emb.inv_freq",)
"""Ends of names that older checkpoints hold, and that follow from the config."""
_BYTES = {"BF16": 2, "F16": 2, "F32": 4, "F64": 8}

Shape = tuple[int, ...]


def tensor_shapes(config: DecoderConfig) -> dict[str, Shape]:
    """The shape of every tensor of a checkpoint; a tied head is the embeddings, and no tensor."""
    tables = {EMBEDDINGS: (config.vocab_size, config.hidden_size), NORM: (config.hidden_size,)}
    if not config.tie_word_embeddings:
        tables[HEAD] = tables[EMBEDDINGS]
    layer = _layer_shapes(config)
    for index in range(config.num_hidden_layers):
        tables |= {f"model.layers.{index}.{name}": shape for name, shape in layer.items()}
    return tables


def _layer_shapes(config: DecoderConfig) -> dict[str, Shape]:
    hidden, inner, dim = config.hidden_size, config.intermediate_size, config.head_dim
    queries, keys = config.num_attention_heads * dim, config.num_key_value_heads * dim
    attention = {"q_proj": (queries, hidden), "k_proj": (keys, hidden), "v_proj": (keys, hidden)}
    out = {"o_proj": (hidden, queries)}
    mlp = {"gate_proj": (inner, hidden), "up_proj": (inner, hidden), "down_proj": (hidden, inner)}
    groups = (
        ("self_attn", attention, config.has_qkv_bias),
        ("self_attn", out, config.attention_bias),
        ("mlp", mlp, config.mlp_bias),
    )
    shapes: dict[str, Shape] = {
        "input_layernorm.weight": (hidden,),
        "post_attention_layernorm.weight": (hidden,),
    }
    for part, projections, has_bias in groups:
        for name, (outputs, inputs) in projections.items():
            shapes[f"{part}.{name}.weight"] = (outputs, inputs)
            if has_bias:
                shapes[f"{part}.{name}.bias"] = (outputs,)
    if config.has_qk_norm:
        shapes |= {f"self_attn.{name}.weight": (dim,) for name in ("q_norm", "k_norm")}
    return shapes


@dataclass(frozen=True)
class _Found:
    """A tensor in its file, under its name there."""

    path: Path
    name: str
    shape: Shape
    dtype: str

    @property
    def num_bytes(self) -> int:
        return prod(self.shape) * _BYTES[self.dtype]

    def read(self) -> Tensor:
        with safe_open(self.path, "pt") as file:
            tensor: Tensor = file.get_tensor(self.name)
        return tensor


class Checkpoint(Mapping[str, Tensor]):
    """A folder's config, and its tensors by name as they were kept; each is read when it is asked for.

    Nothing is held here: a tensor is a view of its file, and is gone with whoever asked for it. Where head
    and embeddings are tied, the head's name gives the embeddings.

    Args:
        own_name: what the decoder calls a tensor of the files; None for what is another's, kept in `others`.

    Attributes:
        config: of `config.json`.
        num_bytes: of all tensors, of tied ones once.
        others: what reads each of the files' other tensors.
    """

    def __init__(self, folder: Path, own_name: Callable[[str], str | None] = str) -> None:
        """Raises ArtifactMismatch unless the files hold just what the config asks for."""
        self.config = DecoderConfig.from_file(folder / decoder_config.NAME)
        everything = _read_headers(folder)
        self.others = {name: one.read for name, one in everything.items() if own_name(name) is None}
        found = {own: one for name, one in everything.items() if (own := own_name(name)) is not None}
        head = found.get(HEAD)
        if self.config.tie_word_embeddings:
            found.pop(HEAD, None)
        _compare(folder, found, self.config)
        self.num_bytes = sum(tensor.num_bytes for tensor in found.values())
        self._found = found
        if self.config.tie_word_embeddings:
            self._tie(head)

    def __getitem__(self, name: str) -> Tensor:
        return self._found[name].read()

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def _tie(self, head: _Found | None) -> None:
        """Some savers write a tied head none the less."""
        embeddings = self._found[EMBEDDINGS]
        if head is not None and not torch.equal(head.read(), embeddings.read()):
            raise ArtifactMismatch(
                f"{head.path}: {HEAD} is not {EMBEDDINGS}, though {decoder_config.NAME} has "
                "tie_word_embeddings true; allowed: the same values, no head, or tie_word_embeddings false"
            )
        self._found[HEAD] = embeddings


def _read_headers(folder: Path) -> dict[str, _Found]:
    """All tensors of a folder's files but those that follow from the config."""
    found: dict[str, _Found] = {}
    for path in _shards(folder):
        for tensor in _header(path):
            if tensor.name in found:
                raise ArtifactMismatch(f"{path}: {tensor.name} is in {found[tensor.name].path} as well")
            if not tensor.name.endswith(_DERIVED):
                found[tensor.name] = tensor
    return found


def _shards(folder: Path) -> list[Path]:
    index = folder / INDEX
    if (folder / WEIGHTS).exists():
        return [folder / WEIGHTS]
    if not index.exists():
        raise ArtifactMismatch(f"{folder} has no weights: neither {WEIGHTS} nor {INDEX}")
    try:
        names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
        shards = [folder / Path(name).name for name in names]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ArtifactMismatch(f"{index}: weight_map is no map of tensors to files of its folder") from error
    for shard in shards:
        if not shard.exists():
            raise ArtifactMismatch(f"{shard} is missing; {INDEX} names {', '.join(names)}")
    return shards


def _header(path: Path) -> Iterator[_Found]:
    try:
        with safe_open(path, "pt") as file:
            for name in file.keys():  # noqa: SIM118
                kept = file.get_slice(name)
                yield _Found(path, name, tuple(kept.get_shape()), kept.get_dtype())
    except SafetensorError as error:
        raise ArtifactMismatch(f"{path} is not a whole safetensors file: {error}") from error


def _compare(folder: Path, found: Mapping[str, _Found], config: DecoderConfig) -> None:
    wanted = tensor_shapes(config)
    for name, shape in wanted.items():
        if name not in found:
            raise ArtifactMismatch(
                f"{folder}: no file has {name} of {list(shape)}, which {decoder_config.NAME} asks for"
            )
    for name, tensor in found.items():
        if name not in wanted:
            raise ArtifactMismatch(
                f"{tensor.path}: {name} of {list(tensor.shape)} is no tensor of a {config.model_type} as "
                f"{decoder_config.NAME} describes it"
            )
        if tensor.shape != wanted[name]:
            raise ArtifactMismatch(
                f"{tensor.path}: {name} is {list(tensor.shape)}, where {decoder_config.NAME} asks for "
                f"{list(wanted[name])}"
            )
        if tensor.dtype not in _BYTES:
            raise ArtifactMismatch(
                f"{tensor.path}: {name} is {tensor.dtype}, which is not served; allowed: {', '.join(_BYTES)}"
            )
