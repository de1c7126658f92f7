"""Weights of llama.cpp's files: what another reader of them makes of them, in the order of our rotation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from talkahead.backbone.checkpoint import WEIGHTS
from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.backbone.llama import Llama
from talkahead.backbone.native_matrix import in_groups
from talkahead.errors import ArtifactMismatch
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

from build_engines.gguf_weights import write_safetensors
from perf.talker.gguf_file import write_gguf

CONFIG = DecoderConfig(97, 96, 64, 128, 2, 4, 2, 16)


@pytest.fixture
def talker(tmp_path: Path) -> Path:
    torch.manual_seed(3)
    Llama(CONFIG).save(tmp_path)
    return tmp_path


def read_by_transformers(path: Path) -> dict[str, torch.Tensor]:
    own = {field: getattr(CONFIG, field) for field in ("vocab_size", "hidden_size", "intermediate_size")}
    own |= {"num_hidden_layers": CONFIG.num_hidden_layers, "head_dim": CONFIG.head_dim}
    heads = {"num_attention_heads": CONFIG.num_attention_heads}
    model = LlamaForCausalLM(LlamaConfig(**own, **heads, num_key_value_heads=CONFIG.num_key_value_heads))
    tensors = load_gguf_checkpoint(path, return_tensors=True, model_to_load=model)["tensors"]
    return {name: torch.as_tensor(value) for name, value in tensors.items()}


@pytest.mark.parametrize(("kind", "near"), [("float32", 2**-8), ("Q8_0", 0.01), ("Q4_0", 0.13)])
def test_tensors_are_those_that_were_written(talker: Path, kind: str, near: float) -> None:
    write_gguf(talker, kind, talker / "weights.gguf")
    write_safetensors(talker / "weights.gguf", CONFIG, talker / "found.safetensors")
    ours, written = load_file(talker / "found.safetensors"), load_file(talker / WEIGHTS)
    assert ours.keys() == written.keys()
    for name, tensor in written.items():
        assert ours[name].dtype is torch.bfloat16
        assert (ours[name].float() - tensor.float()).abs().max() <= near * tensor.float().abs().max()


def test_tensors_are_those_that_transformers_reads(talker: Path) -> None:
    write_gguf(talker, "Q8_0", talker / "weights.gguf")
    write_safetensors(talker / "weights.gguf", CONFIG, talker / "found.safetensors")
    ours = load_file(talker / "found.safetensors")
    theirs = read_by_transformers(talker / "weights.gguf")
    shared = ours.keys() & theirs.keys()
    assert any("q_proj" in name for name in shared) and any("k_proj" in name for name in shared)
    assert all(torch.equal(ours[name], theirs[name].bfloat16()) for name in shared)


def test_four_bits_are_the_same_four_bits_again(talker: Path) -> None:
    """Where they are served in int4."""
    write_gguf(talker, "Q4_0", talker / "weights.gguf")
    write_safetensors(talker / "weights.gguf", CONFIG, talker / "found.safetensors")
    exact = read_by_transformers(talker / "weights.gguf")
    name = "model.layers.1.mlp.down_proj.weight"
    whole, scales = in_groups(load_file(talker / "found.safetensors")[name].float())
    wanted = exact[name].unflatten(1, (-1, 32))
    assert torch.equal(whole.unflatten(1, (-1, 32)), (wanted / scales[..., None]).round())


def test_what_is_not_a_decoders_is_refused_by_name(talker: Path) -> None:
    write_gguf(talker, "Q8_0", talker / "weights.gguf")
    path, found = talker / "weights.gguf", talker / "found.safetensors"
    with pytest.raises(ArtifactMismatch, match=r"general\.architecture is llama, where .* qwen2"):
        write_safetensors(path, replace(CONFIG, model_type="qwen2"), found)
    with pytest.raises(ArtifactMismatch, match=r"blk\.1\..* is no tensor of a llama"):
        write_safetensors(path, replace(CONFIG, num_hidden_layers=1), found)
    path.write_bytes(path.read_bytes()[:2_000])
    with pytest.raises(ArtifactMismatch, match="not a whole GGUF file"):
        write_safetensors(path, CONFIG, found)
    assert not found.exists()
