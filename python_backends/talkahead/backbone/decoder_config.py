"""A decoder's `config.json` in Hugging Face's layout: each of its fields is honoured, or refused by name.

Facts of what a field means, and of what one that is missing means, are those of transformers' own classes
(`LlamaConfig`, `Qwen2Config`, `Qwen3Config`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from talkahead.backbone.strict_fields import StrictFields
from talkahead.errors import ArtifactMismatch

NAME = "config.json"
_LLAMA, _QWEN2, _QWEN3 = "llama", "qwen2", "qwen3"
_ARCHITECTURES = {_LLAMA: "LlamaForCausalLM", _QWEN2: "Qwen2ForCausalLM", _QWEN3: "Qwen3ForCausalLM"}
_SHARED = {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "rms_norm_eps": 1e-6}
_QWEN = {
    **_SHARED,
    **{"vocab_size": 151936, "intermediate_size": 22016, "num_key_value_heads": 32},
    "max_position_embeddings": 32768,
}
_DEFAULTS: dict[str, dict[str, float]] = {
    _LLAMA: {
        **_SHARED,
        **{"vocab_size": 32000, "intermediate_size": 11008, "max_position_embeddings": 2048},
        "eos_token_id": 2,
    },
    _QWEN2: _QWEN,
    _QWEN3: {**_QWEN, "head_dim": 128},
}
_NO_MATTER = (
    *("_name_or_path", "attn_implementation", "_attn_implementation_autoset", "transformers_version"),
    *("bos_token_id", "pad_token_id", "initializer_range", "attention_dropout"),
    *("use_cache", "unsloth_fixed", "unsloth_version"),
)
"""Fields that change nothing where tokens are fed by number and weights stay as they are."""
_DTYPES = ("float32", "bfloat16", "float16", "float64")
_WITHOUT_EFFECT: dict[str, tuple[object, ...]] = {
    **{"use_mrope": (False,), "rope_interleaved": (False,), "is_llama_config": (False, True)},
    **{"use_sliding_window": (False,), "mlp_bias": (False,), "partial_rotary_factor": (1.0, 1)},
    **{"output_attentions": (False,), "output_hidden_states": (False,), "return_dict": (True, False)},
    **{"is_decoder": (False, True), "is_encoder_decoder": (False,), "tie_encoder_decoder": (False,)},
}
"""Fields of other kinds that change nothing at these values; the first is what a missing one means."""
_ROPE_TYPES = ("default", "linear", "llama3")
_OF_LLAMA3 = ("low_freq_factor", "high_freq_factor", "original_max_position_embeddings")


@dataclass(frozen=True)
class Llama3Scaling:
    """Llama 3's longer context: waves of rotation that are long beside the first context turn `factor` times
    slower, short ones as before, and between the two factors they pass from one to the other."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_position_embeddings: int


@dataclass(frozen=True)
class LinearScaling:
    """All waves turn `factor` times slower, so that so many times the first context fit."""

    factor: float


Scaling = Llama3Scaling | LinearScaling


@dataclass(frozen=True)
class DecoderConfig:
    """What a decoder of the Llama family has to know of its weights; fields are those of `config.json`.

    Args:
        eos_token_id: where a public checkpoint has several or none, all of them.
        dtype: what the file says of its weights, whose own type is what counts.
    """

    vocab_size: int
    eos_token_id: int | tuple[int, ...]
    hidden_size: int = 256
    intermediate_size: int = 640
    num_hidden_layers: int = 8
    num_attention_heads: int = 4
    num_key_value_heads: int = 4
    head_dim: int = 64
    max_position_embeddings: int = 1024
    rms_norm_eps: float = 1e-5
    rope_theta: float = 10_000.0
    rope_scaling: Scaling | None = None
    tie_word_embeddings: bool = False
    attention_bias: bool = False
    mlp_bias: bool = False
    model_type: str = _LLAMA
    dtype: str = "float32"

    @property
    def eos(self) -> int:
        """The one token that ends speech; raises ArtifactMismatch where there are several or none."""
        if not isinstance(self.eos_token_id, int):
            raise ArtifactMismatch(
                f"{NAME}: eos_token_id is {list(self.eos_token_id)}; a talker that is served has one, which "
                "is written when its checkpoint is imported"
            )
        return self.eos_token_id

    @property
    def has_qkv_bias(self) -> bool:
        return self.attention_bias or self.model_type == _QWEN2

    @property
    def has_qk_norm(self) -> bool:
        """Whether each head of queries and keys is normed before it is rotated."""
        return self.model_type == _QWEN3

    @property
    def _rope_type(self) -> str:
        return "linear" if isinstance(self.rope_scaling, LinearScaling) else "llama3"

    @classmethod
    def from_file(cls, path: Path) -> Self:
        """Reads a whole `config.json`; raises ArtifactMismatch for what is not served."""
        return cls._of(StrictFields.of_file(path))

    @classmethod
    def from_fields(cls, raw: Mapping[str, Any], path: Path) -> Self:
        """As `from_file`, of fields that were found in `path`."""
        return cls._of(StrictFields(raw, path))

    @classmethod
    def _of(cls, fields: StrictFields) -> Self:
        model_type = _model_type(fields)
        fields.defaults = _DEFAULTS[model_type]
        heads = fields.whole("num_attention_heads")
        positions = fields.whole("max_position_embeddings")
        theta, scaling = _rope(fields, positions)
        config = cls(
            vocab_size=fields.whole("vocab_size"),
            eos_token_id=_eos(fields),
            hidden_size=(hidden := fields.whole("hidden_size")),
            intermediate_size=fields.whole("intermediate_size"),
            num_hidden_layers=(layers := fields.whole("num_hidden_layers")),
            num_attention_heads=heads,
            num_key_value_heads=_kv_heads(fields, heads),
            head_dim=_head_dim(fields, hidden, heads),
            max_position_embeddings=positions,
            rms_norm_eps=fields.real("rms_norm_eps"),
            rope_theta=theta,
            rope_scaling=scaling,
            tie_word_embeddings=fields.flag("tie_word_embeddings"),
            attention_bias=model_type != _QWEN2 and fields.flag("attention_bias"),
            mlp_bias=model_type == _LLAMA and fields.flag("mlp_bias"),
            model_type=model_type,
            dtype=_dtype(fields),
        )
        _refuse_variants(fields, model_type, layers)
        fields.refuse_unread(model_type)
        return config

    def to_hugging_face(self) -> dict[str, Any]:
        """The whole `config.json`, loadable by transformers and `from_fields`."""
        ours = asdict(self)
        scaling = ours.pop("rope_scaling")
        biases = {name: ours.pop(name) for name in ("attention_bias", "mlp_bias")}
        known = {_LLAMA: ("attention_bias", "mlp_bias"), _QWEN2: (), _QWEN3: ("attention_bias",)}
        ours["eos_token_id"] = None if self.eos_token_id == () else self.eos_token_id
        return {
            "architectures": [_ARCHITECTURES[self.model_type]],
            "model_type": ours.pop("model_type"),
            "hidden_act": "silu",
            "tie_word_embeddings": ours.pop("tie_word_embeddings"),
            **{name: biases[name] for name in known[self.model_type]},
            "bos_token_id": None,
            "pad_token_id": None,
            "torch_dtype": ours.pop("dtype"),
            **ours,
            **({"rope_scaling": {"rope_type": self._rope_type, **scaling}} if scaling else {}),
        }


def _model_type(fields: StrictFields) -> str:
    """As the file names it, or, where it names the class alone, the type of that."""
    architectures = fields.take("architectures")
    by_class = {name: model_type for model_type, name in _ARCHITECTURES.items()}
    if architectures is not None and architectures not in [[name] for name in by_class]:
        raise fields.refusal("architectures", architectures, f"one of {', '.join(by_class)}")
    implied = by_class[architectures[0]] if architectures else None
    return str(fields.one_of("model_type", (implied,) if implied else tuple(_ARCHITECTURES), implied))


def _eos(fields: StrictFields) -> int | tuple[int, ...]:
    value = fields.take("eos_token_id")
    listed = value if isinstance(value, list) else [] if value is None else [value]
    tokens = tuple(one for one in listed if isinstance(one, int) and not isinstance(one, bool) and one >= 0)
    if len(tokens) != len(listed):
        raise fields.refusal("eos_token_id", value, "a token, a list of tokens or null")
    return tokens[0] if len(tokens) == 1 else tokens


def _kv_heads(fields: StrictFields, heads: int) -> int:
    value = fields.take("num_key_value_heads")
    if value is None:
        return heads
    if isinstance(value, bool) or not isinstance(value, int) or value < 1 or heads % value:
        raise fields.refusal("num_key_value_heads", value, f"a divisor of num_attention_heads, {heads}")
    return value


def _head_dim(fields: StrictFields, hidden: int, heads: int) -> int:
    value = fields.take("head_dim")
    if value is None and hidden % heads:
        raise fields.refusal("head_dim", None, f"a size, as {heads} heads do not divide hidden_size {hidden}")
    size = hidden // heads if value is None else value
    if isinstance(size, bool) or not isinstance(size, int) or size < 2 or size % 2:
        raise fields.refusal("head_dim", size, "an even number from 2, as rotations turn pairs")
    return size


def _dtype(fields: StrictFields) -> str:
    """transformers 5 writes `dtype`, older ones `torch_dtype`."""
    older = fields.one_of("torch_dtype", (None, *_DTYPES), None) or "float32"
    return str(fields.one_of("dtype", (None, *_DTYPES), older) or older)


def _rope(fields: StrictFields, positions: int) -> tuple[float, Scaling | None]:
    """transformers 5 writes all of it as `rope_parameters`, older ones `rope_theta` and `rope_scaling`."""
    is_told = fields.has("rope_theta")
    theta = fields.real("rope_theta", 10_000.0)
    older, newer = fields.group("rope_scaling"), fields.group("rope_parameters")
    if older and newer:
        raise fields.refusal("rope_scaling", "given", "it, or rope_parameters, the other null")
    rope = older or newer
    if rope is None:
        return theta, None
    within = rope.real("rope_theta", theta)
    if is_told and within != theta:
        raise rope.refusal("rope_theta", within, f"the file's other rope_theta, which is {theta:g}")
    older_kind = rope.one_of("type", (None, *_ROPE_TYPES), None)  # before transformers 4.43
    kinds = (older_kind,) if older_kind else _ROPE_TYPES
    kind = rope.one_of("rope_type", kinds, older_kind or "default")
    scaling: Scaling | None = _llama3(rope, positions) if kind == "llama3" else None
    if kind == "linear":
        scaling = LinearScaling(rope.real("factor"))
        for name in _OF_LLAMA3:  # left over from the file that it was made of; transformers ignores them
            rope.take(name)
    rope.refuse_unread(f"rope_type {kind}")
    return within, scaling


def _llama3(rope: StrictFields, positions: int) -> Llama3Scaling:
    low, high = rope.real("low_freq_factor"), rope.real("high_freq_factor")
    if high <= low:
        raise rope.refusal("high_freq_factor", high, f"a number above low_freq_factor, which is {low:g}")
    original = rope.whole("original_max_position_embeddings", positions)
    return Llama3Scaling(rope.real("factor"), low, high, original)


def _refuse_variants(fields: StrictFields, model_type: str, layers: int) -> None:
    """Of fields that may ask for another computation, all but the one value that is computed here."""
    fields.one_of("hidden_act", ("silu",), "silu")
    for name in _NO_MATTER:
        fields.take(name)
    for name, values in _WITHOUT_EFFECT.items():
        if fields.has(name):
            fields.one_of(name, (*values, None), values[0])
    if model_type == _LLAMA:
        fields.one_of("pretraining_tp", (1, None), 1)
        return
    full = ["full_attention"] * layers
    fields.one_of("layer_types", (full, None), None)
    for name in ("sliding_window", "max_window_layers"):  # of windows, which there are none of
        fields.take(name)
