"""The talker's network: a Llama decoder in Hugging Face's layout, here as one forward over whole sequences.

Training and offline scoring use this module; serving uses `slot_decoder` over the same weights. Architecture:
Touvron et al. 2023 (RMSNorm before each part, rotary positions, SwiGLU), names as in `LlamaForCausalLM`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional

from talkahead.backbone import checkpoint, decoder_config
from talkahead.backbone.checkpoint import Checkpoint
from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.backbone.rope import rope_angles
from talkahead.weights import Unfilled


def rope_tables(
    config: DecoderConfig, length: int, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor]:
    """Cosines and sines [length, head_dim] of the rotary positions 0..length-1, halves repeated."""
    angles = rope_angles(config, length).repeat(1, 2)
    return angles.cos().to(dtype), angles.sin().to(dtype)


def rotate(vectors: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """Applies rotary positions to [..., T, head_dim]; tables broadcast to it."""
    left, right = vectors.chunk(2, dim=-1)
    return vectors * cosines + torch.cat([-right, left], dim=-1) * sines


@dataclass(frozen=True)
class Places:
    """What depends on positions alone: rotary tables [T, head_dim] and the causal mask [T, T], 0 or -inf."""

    cosines: Tensor
    sines: Tensor
    mask: Tensor


class Attention(nn.Module):
    """Causal attention. rows [B, T, D] -> [B, T, D] and the masked scores of all heads [B, H, T, T].

    Written out rather than fused: on CPUs with bf16 matrix units forward and backward take half the time of
    the fused kernel, and guided attention needs the scores.
    """

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        size, heads, groups = config.head_dim, config.num_attention_heads, config.num_key_value_heads
        self.heads, self.groups, self.size = heads, groups, size
        bias = config.has_qkv_bias
        self.q_proj = nn.Linear(config.hidden_size, heads * size, bias=bias)
        self.k_proj = nn.Linear(config.hidden_size, groups * size, bias=bias)
        self.v_proj = nn.Linear(config.hidden_size, groups * size, bias=bias)
        self.o_proj = nn.Linear(heads * size, config.hidden_size, bias=config.attention_bias)
        self.q_norm, self.k_norm = (
            nn.RMSNorm(size, eps=config.rms_norm_eps) if config.has_qk_norm else nn.Identity()
            for _ in range(2)
        )

    def forward(self, rows: Tensor, places: Places) -> tuple[Tensor, Tensor]:
        query, key, value = (
            self._heads(project(rows), heads)
            for project, heads in (
                (self.q_proj, self.heads),
                (self.k_proj, self.groups),
                (self.v_proj, self.groups),
            )
        )
        query, key = (
            rotate(part, places.cosines, places.sines).to(value.dtype)
            for part in (self.q_norm(query), self.k_norm(key))
        )
        batch, heads, length, size = query.shape
        flat = (batch * heads, length, size)
        mask = places.mask.to(query.dtype).expand(flat[0], length, length)
        scores = torch.baddbmm(mask, query.reshape(flat), key.reshape(flat).transpose(1, 2), alpha=size**-0.5)
        mixed = scores.softmax(-1).to(value.dtype) @ value.reshape(flat)
        joined = mixed.reshape(batch, heads, length, size).transpose(1, 2).reshape(batch, length, -1)
        out: Tensor = self.o_proj(joined)
        return out, scores.reshape(batch, heads, length, length)

    def _heads(self, rows: Tensor, heads: int) -> Tensor:
        """[B, T, heads * size] -> [B, H, T, size]; groups of query heads share a key and a value."""
        batch, length, _ = rows.shape
        split = rows.reshape(batch, length, heads, self.size).transpose(1, 2)
        return split if heads == self.heads else split.repeat_interleave(self.heads // heads, dim=1)


class FeedForward(nn.Module):
    """SwiGLU. [B, T, D] -> [B, T, D]."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=config.mlp_bias)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=config.mlp_bias)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=config.mlp_bias)

    def forward(self, rows: Tensor) -> Tensor:
        out: Tensor = self.down_proj(functional.silu(self.gate_proj(rows)) * self.up_proj(rows))
        return out


class Layer(nn.Module):
    """One decoder layer with residual dropout (training only)."""

    def __init__(self, config: DecoderConfig, dropout: float) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.self_attn = Attention(config)
        self.post_attention_layernorm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.mlp = FeedForward(config)
        self.dropout = nn.Dropout(dropout)

    def forward(self, rows: Tensor, places: Places) -> tuple[Tensor, Tensor]:
        mixed, scores = self.self_attn(self.input_layernorm(rows), places)
        rows = rows + self.dropout(mixed)
        return rows + self.dropout(self.mlp(self.post_attention_layernorm(rows))), scores


class _Model(nn.Module):
    def __init__(self, config: DecoderConfig, dropout: float) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(Layer(config, dropout) for _ in range(config.num_hidden_layers))
        self.norm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)


@dataclass(frozen=True)
class LlamaOutput:
    """hidden [B, T, D] after the last norm; watched [B, T, T] masked scores of the watched head, or None."""

    hidden: Tensor
    watched: Tensor | None


class Llama(nn.Module):
    """A Llama decoder over embedded rows; state names equal `LlamaForCausalLM`'s."""

    def __init__(self, config: DecoderConfig, dropout: float = 0.0) -> None:
        super().__init__()
        self.config = config
        self.model = _Model(config, dropout)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        if config.tie_word_embeddings:
            self.lm_head.weight = self.model.embed_tokens.weight
        self.apply(self._initialise)

    @staticmethod
    def _initialise(module: nn.Module) -> None:
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)

    def forward(self, rows: Tensor, watched: tuple[int, int] | None = None) -> LlamaOutput:
        """Embedded rows [B, T, D] -> hidden states; `watched` = (layer, head) whose scores to return."""
        places = self._places(rows)
        seen = None
        for index, layer in enumerate(self.model.layers):
            rows, scores = layer(rows, places)
            if watched is not None and watched[0] == index:
                seen = scores[:, watched[1]]
        return LlamaOutput(self.model.norm(rows), seen)

    def _places(self, rows: Tensor) -> Places:
        length, dtype = rows.shape[1], torch.promote_types(rows.dtype, torch.float32)
        cosines, sines = rope_tables(self.config, length, dtype)
        mask = torch.full((length, length), float("-inf"), dtype=dtype).triu(1)
        return Places(cosines.to(rows.device), sines.to(rows.device), mask.to(rows.device))

    def save(self, folder: Path) -> None:
        """Writes `config.json` and `model.safetensors`, loadable by transformers."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / decoder_config.NAME).write_text(
            json.dumps(self.config.to_hugging_face(), indent=2) + "\n", encoding="utf-8"
        )
        state = self.state_dict()
        kept = {name: state[name] for name in checkpoint.tensor_shapes(self.config)}
        save_file(kept, folder / checkpoint.WEIGHTS, metadata={"format": "pt"})

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Reads a `LlamaForCausalLM` folder as float32, ready for inference."""
        config, weights = load_llama(folder)
        with Unfilled():
            llama = cls(config)
        llama.load_state_dict(weights)
        return llama.eval().requires_grad_(False)


def load_llama(folder: Path) -> tuple[DecoderConfig, dict[str, Tensor]]:
    """Configuration and float32 weights by Hugging Face's names; for what does not serve."""
    found = Checkpoint(folder)
    return found.config, {name: value.to(torch.float32, copy=True) for name, value in found.items()}
