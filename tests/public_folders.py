"""Small checkpoints in the public layouts, with random weights, as the reference packages write them.

Vocabularies are scaled down, and built alike (`instruments/public_tokenizers.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import torch
from fsq_folder import write_folder
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import Linear
from transformers import (
    GenerationConfig,
    LlamaConfig,
    LlamaForCausalLM,
    NeuCodecModel,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
    Xcodec2Model,
)
from transformers.models.llama.modeling_llama import LlamaDecoderLayer

from instruments.public_codecs import SNAC, write_snac
from instruments.public_tokenizers import llasa_tokenizer, neutts_tokenizer, orpheus_tokenizer

CODES = 32
SMALL_SNAC = {**SNAC, "encoder_dim": 2, "decoder_dim": 32, "codebook_size": 64}


@dataclass(frozen=True)
class Public:
    """A folder, and what wrote it."""

    folder: Path
    tokenizer: PreTrainedTokenizerFast
    model: PreTrainedModel


def write(folder: Path, made: PreTrainedTokenizerFast, model: PreTrainedModel) -> Public:
    made.save_pretrained(folder)
    model.save_pretrained(folder)
    return Public(folder, made, model.double().eval())


def llama(made: PreTrainedTokenizerFast, **changes: object) -> LlamaForCausalLM:
    """Llama 3.2's layout: grouped heads, tied tables, its rotary scaling."""
    scaling = {
        "rope_type": "llama3",
        "rope_theta": 500_000.0,
        "factor": 32.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    }
    fields = {**_small(made), "tie_word_embeddings": True, "rope_parameters": scaling, **changes}
    torch.manual_seed(3)
    return LlamaForCausalLM(LlamaConfig(head_dim=16, **fields))


def qwen2(made: PreTrainedTokenizerFast, **changes: object) -> Qwen2ForCausalLM:
    torch.manual_seed(4)
    model = Qwen2ForCausalLM(Qwen2Config(tie_word_embeddings=True, **{**_small(made), **changes}))
    for name, value in model.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(value)
    return model


def _small(made: PreTrainedTokenizerFast) -> dict[str, Any]:
    return {
        "vocab_size": len(made),
        "bos_token_id": made.bos_token_id,
        "eos_token_id": made.eos_token_id,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 2048,
        "initializer_range": 0.2,
    }


def greedy_codes(
    public: Public,
    prompt: Sequence[int],
    first: int,
    codebooks: Sequence[int],
    end: int,
    steps: int,
    repetition_penalty: float = 1.0,
    least: int = 0,
) -> list[int]:
    """What transformers draws after a prompt where no token is allowed but those of speech: codes, or -1.

    Args:
        first, codebooks: where ids of codes begin, and how many may be drawn by turns.
        end: the id that ends speech; not before each codebook had its turn, nor before `least` tokens.
    """
    ends = list(accumulate(codebooks, initial=first))
    turns = [list(range(*span)) for span in pairwise(ends)]

    def allowed(_: int, ids: Tensor) -> list[int]:
        drawn = len(ids) - len(prompt)
        return [*turns[drawn % len(turns)], *([end] if drawn >= len(turns) else [])]

    settings = GenerationConfig(
        do_sample=False,
        max_new_tokens=steps,
        min_new_tokens=least,
        eos_token_id=end,
        pad_token_id=end,
        repetition_penalty=repetition_penalty,
    )
    ids = torch.tensor([list(prompt)])
    drawn = public.model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        generation_config=settings,
        prefix_allowed_tokens_fn=allowed,
    )
    return [-1 if token == end else token - first for token in drawn[0, len(prompt) :].tolist()]


def write_llasa(folder: Path) -> Public:
    made = llasa_tokenizer(CODES)
    return write(folder, made, llama(made))


def write_orpheus(folder: Path) -> Public:
    made = orpheus_tokenizer(CODES)
    return write(folder, made, llama(made, tie_word_embeddings=False))


def write_neutts(folder: Path) -> Public:
    made = neutts_tokenizer(CODES)
    return write(folder, made, qwen2(made))


def write_llasa_plus(folder: Path, modules: int = 2) -> dict[str, Tensor]:
    """One file of the talker under `llm.`, its head written out, and the modules; returns all tensors."""
    public = write_llasa(folder)
    state = {f"llm.{name}": value.float() for name, value in public.model.state_dict().items()}
    width = public.model.config.hidden_size
    for module in range(1, modules + 1):
        layer = LlamaDecoderLayer(public.model.config, layer_idx=0)
        state |= {f"mtp_{module}_block.{name}": value for name, value in layer.state_dict().items()}
        state |= {
            f"mtp_{module}_proj.{name}": value for name, value in Linear(width, width).state_dict().items()
        }
        state[f"mtp_{module}_local_RMSNorm.weight"] = torch.rand(width) + 0.5
    state = {name: value.detach().contiguous().clone() for name, value in state.items()}
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    return state


def medusa_heads(public: Public, blocks: int, heads: int = 3) -> dict[str, Tensor]:
    """A state of Medusa's heads of so many blocks each, by the names of their own file."""
    width, vocabulary = public.model.config.hidden_size, public.model.config.vocab_size
    state: dict[str, Tensor] = {}
    for head in range(heads):
        for block in range(blocks):
            state[f"{head}.{block}.linear.weight"] = torch.randn(width, width)
            state[f"{head}.{block}.linear.bias"] = torch.randn(width)
        state[f"{head}.{blocks}.weight"] = torch.randn(vocabulary, width)
    return state


def write_codec(family: str, folder: Path) -> None:
    """A small codec of the family, of `CODES` codes, as it is downloaded."""
    if family == "orpheus":
        write_snac(folder, {**SMALL_SNAC, "codebook_size": CODES})
    else:
        model_class = Xcodec2Model if family == "llasa" else NeuCodecModel
        write_folder(folder, model_class, quantization_levels=[4, 4, 2])
