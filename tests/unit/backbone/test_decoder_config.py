"""Every field of a public config is honoured, or refused by name."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from public_checkpoints import KINDS, LLAMA3, SIZES
from talkahead.backbone.decoder_config import DecoderConfig, LinearScaling, Llama3Scaling
from talkahead.backbone.rope import rope_angles
from talkahead.errors import ArtifactMismatch

transformers = pytest.importorskip("transformers")
CLASSES = {
    "llama": transformers.LlamaConfig,
    "qwen2": transformers.Qwen2Config,
    "qwen3": transformers.Qwen3Config,
}
SCALING = Llama3Scaling(4.0, 1.0, 4.0, 64)
SCALINGS = {"llama 3, tied": SCALING, "llama, linear": LinearScaling(8.0)}


def read(folder: Path, raw: dict[str, Any] | list[int] | str) -> DecoderConfig:
    path = folder / "config.json"
    path.write_text(raw if isinstance(raw, str) else json.dumps(raw))
    return DecoderConfig.from_file(path)


def agrees(ours: DecoderConfig, theirs: transformers.PreTrainedConfig) -> bool:
    """In all that decides what is computed."""
    rope = theirs.rope_parameters
    assert theirs.num_attention_heads * ours.head_dim % theirs.num_key_value_heads == 0
    dim = getattr(theirs, "head_dim", None) or theirs.hidden_size // theirs.num_attention_heads
    names = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
    more = ("num_key_value_heads", "max_position_embeddings", "rms_norm_eps", "tie_word_embeddings")
    return (
        all(getattr(ours, name) == getattr(theirs, name) for name in (*names, *more))
        and (ours.head_dim, ours.rope_theta) == (dim, rope["rope_theta"])
        and (ours.rope_scaling is not None) == (rope["rope_type"] in ("llama3", "linear"))
        and all(getattr(ours, n) == getattr(theirs, n, False) for n in ("attention_bias", "mlp_bias"))
    )


@pytest.mark.parametrize("kind", KINDS)
def test_what_transformers_writes_is_read_and_written_again(kind: str, tmp_path: Path) -> None:
    theirs = KINDS[kind]
    theirs.save_pretrained(tmp_path)
    ours = DecoderConfig.from_file(tmp_path / "config.json")
    assert agrees(ours, theirs)
    assert ours.eos == 49 and ours.rope_scaling == SCALINGS.get(kind)
    assert read(tmp_path, ours.to_hugging_face()) == ours
    assert agrees(ours, type(theirs).from_pretrained(tmp_path))


@pytest.mark.parametrize("model_type", CLASSES)
def test_a_missing_field_means_what_it_means_to_transformers(model_type: str, tmp_path: Path) -> None:
    ours, theirs = read(tmp_path, {"model_type": model_type}), CLASSES[model_type]()
    assert agrees(ours, theirs)
    assert ours.eos_token_id == (() if theirs.eos_token_id is None else theirs.eos_token_id)


def test_rotations_as_older_files_tell_them(tmp_path: Path) -> None:
    scaling = {name: value for name, value in LLAMA3.items() if name != "rope_theta"}
    older = read(tmp_path, {"model_type": "llama", "rope_theta": 5e5, "rope_scaling": scaling})
    assert (older.rope_theta, older.rope_scaling) == (5e5, SCALING)
    before = {**scaling, "type": "llama3"}
    del before["rope_type"]
    assert read(tmp_path, {"model_type": "llama", "rope_scaling": before}).rope_scaling == SCALING
    linear = {"type": "linear", "factor": 2.0}
    assert read(tmp_path, {"model_type": "llama", "rope_scaling": linear}).rope_scaling == LinearScaling(2.0)
    remade = {**scaling, "rope_type": "linear"}  # of a file for Llama 3; what is left of it has no effect
    assert read(tmp_path, {"model_type": "llama", "rope_scaling": remade}).rope_scaling == LinearScaling(4.0)
    plain = read(tmp_path, {"model_type": "llama", "rope_theta": 5e5, "rope_scaling": None})
    assert (plain.rope_theta, plain.rope_scaling) == (5e5, None)


def test_the_class_alone_names_the_type(tmp_path: Path) -> None:
    assert read(tmp_path, {"architectures": ["Qwen3ForCausalLM"]}).has_qk_norm


@pytest.mark.parametrize("told", ["dtype", "torch_dtype"])
def test_the_type_of_the_weights_is_kept(told: str, tmp_path: Path) -> None:
    assert read(tmp_path, {"model_type": "llama", told: "bfloat16"}).dtype == "bfloat16"


@pytest.mark.parametrize("told", [None, [1, 2, 3]])
def test_a_talker_has_one_end(told: list[int] | None, tmp_path: Path) -> None:
    config = read(tmp_path, {"model_type": "llama", "eos_token_id": told})
    assert config.eos_token_id == tuple(told or ())
    with pytest.raises(ArtifactMismatch, match=r"eos_token_id is .*; a talker that is served has one"):
        _ = config.eos
    assert replace(config, eos_token_id=7).eos == 7


FORM = "{field} is .*, which is not served; allowed: {allowed}"
REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "model type": ({"model_type": "mistral"}, "model_type", '"llama" or "qwen2" or "qwen3"'),
    "no model type": ({"model_type": None}, "model_type", '"llama" or'),
    "architecture": ({"architectures": ["LlamaModel"]}, "architectures", "one of LlamaForCausalLM"),
    "other architecture": ({"architectures": ["Qwen2ForCausalLM"]}, "model_type", '"qwen2"'),
    "unknown": ({"quantization_config": {"bits": 4}}, "quantization_config", "the fields of llama: .*hidden"),
    "another type's": ({"use_sliding_window": True}, "use_sliding_window", "false or null"),
    "three rotations": ({"model_type": "qwen2", "use_mrope": True}, "use_mrope", "false or null"),
    "part of each head": ({"partial_rotary_factor": 0.5}, "partial_rotary_factor", "1.0 or 1 or null"),
    "qwen2 biases": (
        {"model_type": "qwen2", "attention_bias": False},
        "attention_bias",
        "the fields of qwen2",
    ),
    "activation": ({"hidden_act": "gelu"}, "hidden_act", '"silu"'),
    "pretraining": ({"pretraining_tp": 2}, "pretraining_tp", "1 or null"),
    "window": ({"model_type": "qwen2", "use_sliding_window": True}, "use_sliding_window", "false"),
    "layers": (
        {"model_type": "qwen3", "num_hidden_layers": 1, "layer_types": ["sliding_attention"]},
        *("layer_types", r'\["full_attention"\]'),
    ),
    "flag": ({"tie_word_embeddings": 1}, "tie_word_embeddings", "false or true"),
    "size": ({"vocab_size": 0}, "vocab_size", "a whole number from 1"),
    "kind": ({"hidden_size": "wide"}, "hidden_size", "a whole number from 1"),
    "epsilon": ({"rms_norm_eps": 0}, "rms_norm_eps", "a number above 0"),
    "groups": ({"num_key_value_heads": 3}, "num_key_value_heads", "a divisor of num_attention_heads, 4"),
    "no head size": (
        {"num_attention_heads": 3, "num_key_value_heads": 3},
        "head_dim",
        "a size, as 3 heads do not divide",
    ),
    "odd head": ({"head_dim": 15}, "head_dim", "an even number from 2"),
    "end": ({"eos_token_id": "end"}, "eos_token_id", "a token, a list of tokens or null"),
    "dtype": ({"dtype": "int8"}, "dtype", 'null or "float32" or'),
    "rotation": ({"rope_scaling": {"rope_type": "yarn"}}, "rope_scaling.rope_type", '"default" or "linear"'),
    "older rotation": ({"rope_scaling": {"type": "dynamic"}}, "rope_scaling.type", 'null or "default"'),
    "no linear factor": ({"rope_scaling": {"type": "linear"}}, "rope_scaling.factor", "a number above 0"),
    "two rotations": ({"rope_scaling": {"type": "default", "rope_type": "llama3"}}, "rope_type", '"default"'),
    "rotation twice": ({"rope_scaling": {}, "rope_parameters": {}}, "rope_scaling", "it, or rope_parameters"),
    "two bases": (
        {"rope_theta": 5e5, "rope_parameters": {"rope_theta": 1e4}},
        *("rope_parameters.rope_theta", "the file's other rope_theta, which is 500000"),
    ),
    "part of a head": (
        {"rope_parameters": {"partial_rotary_factor": 0.5}},
        *("rope_parameters.partial_rotary_factor", "the fields of rope_type default: rope_theta"),
    ),
    "no factor": (
        {"rope_parameters": {**LLAMA3, "factor": None}},
        "rope_parameters.factor",
        "a number above 0",
    ),
    "factors": (
        {"rope_parameters": {**LLAMA3, "high_freq_factor": 1.0}},
        *("rope_parameters.high_freq_factor", "a number above low_freq_factor, which is 1"),
    ),
    "no rotation": ({"rope_scaling": "none"}, "rope_scaling", "null or an object"),
}


@pytest.mark.parametrize("model_type", CLASSES)
def test_fields_that_change_nothing_at_their_values_are_none(model_type: str, tmp_path: Path) -> None:
    idle = {
        **{"use_mrope": False, "rope_interleaved": False, "is_llama_config": True, "mlp_bias": False},
        **{"use_sliding_window": False, "partial_rotary_factor": 1.0, "return_dict": True},
        **{"quantization_config": None, "sliding_window": None, "a_switch_that_is_off": None},
    }
    plain = {"model_type": model_type, **SIZES}
    assert read(tmp_path, {**plain, **idle}) == read(tmp_path, plain)


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_served_is_refused_by_name(case: str, tmp_path: Path) -> None:
    fields, field, allowed = REFUSED[case]
    with pytest.raises(ArtifactMismatch, match=FORM.format(field=field, allowed=allowed)) as refusal:
        read(tmp_path, {"model_type": "llama", **SIZES, **fields})
    assert str(tmp_path / "config.json") in str(refusal.value)


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArtifactMismatch, match=r"config\.json is missing"):
        DecoderConfig.from_file(tmp_path / "config.json")
    with pytest.raises(ArtifactMismatch, match=r"config\.json is not JSON"):
        read(tmp_path, "{")
    with pytest.raises(ArtifactMismatch, match="holds no JSON object, but a list"):
        read(tmp_path, [1])


@pytest.mark.parametrize("first", [64, 8192])
def test_llama_3_turns_as_slowly_as_transformers(first: int, tmp_path: Path) -> None:
    """With Llama 3.2's own numbers, in which some pairs pass from one speed to the other."""
    rope = {**LLAMA3, "rope_theta": 5e5, "factor": 32.0, "original_max_position_embeddings": first}
    theirs = transformers.LlamaConfig(rope_parameters=rope, head_dim=64)
    expected, _ = transformers.modeling_rope_utils.ROPE_INIT_FUNCTIONS["llama3"](theirs)
    theirs.save_pretrained(tmp_path)
    config = DecoderConfig.from_file(tmp_path / "config.json")
    angles = rope_angles(config, 3)
    torch.testing.assert_close(angles[1].float(), expected, rtol=1e-5, atol=0)
    torch.testing.assert_close(angles[2], 2 * angles[1])
    shares = angles[1] / rope_angles(replace(config, rope_scaling=None), 2)[1]
    assert ((shares > 1.01 / 32) & (shares < 0.99)).any()
