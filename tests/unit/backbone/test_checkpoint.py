"""A checkpoint's files hold what its config asks for, and nothing else, or are refused by name."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from public_checkpoints import KINDS, SIZES, saved, transformers
from safetensors.torch import load_file, save_file
from talkahead.backbone.checkpoint import EMBEDDINGS, HEAD, INDEX, WEIGHTS, Checkpoint
from talkahead.errors import ArtifactMismatch
from torch import Tensor

Change = Callable[[dict[str, Tensor]], object]


@pytest.mark.parametrize("shard", ["50GB", "60kB"], ids=["one file", "shards"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_tensors_are_read_as_transformers_wrote_them(
    kind: str, dtype: torch.dtype, shard: str, tmp_path: Path
) -> None:
    saved(kind, tmp_path, dtype, shard)
    assert (tmp_path / INDEX).exists() == (shard == "60kB")
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=dtype)
    expected, found = model.state_dict(), Checkpoint(tmp_path)
    assert set(found) == set(expected)
    for name, tensor in found.items():
        assert tensor.dtype is dtype and torch.equal(tensor, expected[name])
    assert found.num_bytes == sum(value.nbytes for value in model.parameters())


def test_what_follows_from_the_config_is_left_out(tmp_path: Path) -> None:
    change(saved("qwen2", tmp_path), lambda state: add(state, "model.layers.0.self_attn.rotary_emb.inv_freq"))
    assert not [name for name in Checkpoint(tmp_path) if "rotary" in name]


def test_a_tied_head_that_was_written_is_the_embeddings(tmp_path: Path) -> None:
    saved("llama 3, tied", tmp_path)
    change(tmp_path, lambda state: state.update({HEAD: state[EMBEDDINGS].clone()}))
    found = Checkpoint(tmp_path)
    assert torch.equal(found[HEAD], found[EMBEDDINGS])
    change(tmp_path, lambda state: state[HEAD].add_(1))
    refused(tmp_path, WEIGHTS, f"{HEAD} is not {EMBEDDINGS}, though config.json has tie_word_embeddings true")


def change(folder: Path, what: Change) -> None:
    """To the tensors of the one file there is."""
    state = {name: tensor.clone() for name, tensor in load_file(folder / WEIGHTS).items()}
    what(state)
    save_file(state, folder / WEIGHTS)


def add(state: dict[str, Tensor], name: str) -> None:
    state[name] = torch.zeros(3)


def refused(folder: Path, *words: str) -> None:
    with pytest.raises(ArtifactMismatch, match=".*".join(map(re.escape, (str(folder), *words)))):
        Checkpoint(folder)


BIAS = "model.layers.1.self_attn.k_proj.bias"
REFUSED: dict[str, tuple[Change, tuple[str, ...]]] = {
    "missing": (lambda state: state.pop(BIAS), ("no file has", BIAS, "[32], which config.json asks for")),
    "no head": (lambda state: state.pop(HEAD), ("no file has", HEAD, "[50, 64]")),
    "unknown": (
        lambda state: add(state, "lm_head.bias"),
        (WEIGHTS, "lm_head.bias of [3] is no tensor of a qwen2 as config.json describes it"),
    ),
    "one layer more": (
        lambda state: add(state, "model.layers.3.self_attn.k_proj.bias"),
        (WEIGHTS, "model.layers.3.self_attn.k_proj.bias", "is no tensor"),
    ),
    "shape": (
        lambda state: state.update({BIAS: torch.zeros(64)}),
        (WEIGHTS, BIAS, "is [64], where config.json asks for [32]"),
    ),
    "type": (
        lambda state: state.update({BIAS: torch.zeros(32, dtype=torch.int8)}),
        (WEIGHTS, BIAS, "is I8, which is not served; allowed: BF16, F16, F32, F64"),
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_tensors_that_the_config_does_not_ask_for_are_refused(case: str, tmp_path: Path) -> None:
    what, words = REFUSED[case]
    change(saved("qwen2", tmp_path), what)
    refused(tmp_path, *words)


def test_the_talker_of_another_type_is_refused(tmp_path: Path) -> None:
    saved("qwen3", tmp_path)
    transformers.LlamaConfig(**SIZES, head_dim=32).save_pretrained(tmp_path)
    refused(tmp_path, WEIGHTS, "_norm.weight of [32] is no tensor of a llama")


def test_files_that_are_missing_or_broken_are_refused(tmp_path: Path) -> None:
    saved("qwen2", tmp_path, shard="60kB")
    index = json.loads((tmp_path / INDEX).read_text())
    shard = tmp_path / index["weight_map"]["model.norm.weight"]
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-1])
    refused(tmp_path, shard.name, "is not a whole safetensors file")
    shard.unlink()
    refused(tmp_path, shard.name, f"is missing; {INDEX} names model-00001-of-")
    other = tmp_path / index["weight_map"][EMBEDDINGS]
    shard.write_bytes(other.read_bytes())
    refused(tmp_path, shard.name, "is in", other.name)
    (tmp_path / INDEX).write_text("{}")
    refused(tmp_path, INDEX, "weight_map is no map of tensors to files")
    (tmp_path / INDEX).unlink()
    refused(tmp_path, f"has no weights: neither {WEIGHTS} nor {INDEX}")
