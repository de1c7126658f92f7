"""Small checkpoints in the public layouts, with random weights, as the reference packages write them.

Vocabularies are scaled down and built alike: a byte-level BPE of the words below, the base model's own
tokens, then the family's in the order in which it added them. Ids are not the public ones, unless `base_size`
makes them so.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import snac_folder
import torch
from fsq_folder import write_folder
from safetensors.torch import save_file
from snac_folder import published_folder
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
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

CODES = 32
_TEXT = (
    "Convert the text to speech: user assistant system Cutting Knowledge Date Today December 2023 26 Jul",
    "The juice of lemons makes fine punch. It's easy to tell the depth of a well, she said, isn't it?",
    "Hello there, my name is tara leah jess leo dan mia zac zoe!",
    "həlˈoʊ wˈɜːld ðə dʒˈuːs ʌv lˈɛmənz mˌeɪks fˈaɪn pˈʌntʃ",
)
_SPLIT = Regex(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
    r"\s+(?!\S)|\s+"
)
"""How Llama 3 and Qwen 2 part a text before pairs of bytes are merged."""
_NAMED = {0: "begin_of_text", 1: "end_of_text", 6: "start_header_id", 7: "end_header_id", 9: "eot_id"}
LLAMA_OWN = tuple(f"<|{_NAMED.get(number, f'reserved_special_token_{number}')}|>" for number in range(256))
BOS, EOT = LLAMA_OWN[0], LLAMA_OWN[9]
LLAMA_BASE = 128_000
LLASA_OWN = tuple(
    f"<|{what}_{edge}|>"
    for what in ("TEXT_GENERATION", "TEXT_UNDERSTANDING", "SPEECH_GENERATION", "SPEECH_UNDERSTANDING")
    for edge in ("START", "END")
)
NEUTTS_OWN = (
    *("<|TEXT_REPLACE|>", "<|TEXT_PROMPT_START|>", "<|TEXT_PROMPT_END|>", "<|SPEECH_REPLACE|>"),
    *("<|SPEECH_GENERATION_START|>", "<|SPEECH_GENERATION_END|>"),
)
CHAT_TEMPLATE = """{{- bos_token -}}
{%- if not date_string is defined -%}
    {%- if strftime_now is defined -%}
        {%- set date_string = strftime_now("%d %b %Y") -%}
    {%- else -%}
        {%- set date_string = "26 Jul 2024" -%}
    {%- endif -%}
{%- endif -%}
{%- if messages[0]["role"] == "system" -%}
    {%- set instructions, rest = messages[0]["content"] | trim, messages[1:] -%}
{%- else -%}
    {%- set instructions, rest = "", messages -%}
{%- endif -%}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" -}}
{{- "Cutting Knowledge Date: December 2023\\n" -}}
{{- "Today Date: " + date_string + "\\n\\n" + instructions + "<|eot_id|>" -}}
{%- for one in rest -%}
    {{- "<|start_header_id|>" + one["role"] + "<|end_header_id|>\\n\\n" -}}
    {{- one["content"] | trim + "<|eot_id|>" -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- "<|start_header_id|>assistant<|end_header_id|>\\n\\n" -}}{%- endif -%}
"""
"""Of Llama 3.2's structure: a system header with the date, turns with their headers, ends of turns."""


def tokenizer(added: Sequence[str], base_size: int | None = None) -> PreTrainedTokenizerFast:
    """A fast tokenizer in the form of Llama 3's and Qwen 2's, with tokens of its own behind the base.

    Args:
        base_size: of the base vocabulary, which is filled up with entries that no text has.
    """
    bpe = Tokenizer(models.BPE())
    parts = [pre_tokenizers.Split(_SPLIT, "isolated"), pre_tokenizers.ByteLevel(False, use_regex=False)]
    bpe.pre_tokenizer = pre_tokenizers.Sequence(parts)
    bpe.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    bpe.train_from_iterator(_TEXT, trainers.BpeTrainer(vocab_size=420, initial_alphabet=alphabet))
    if base_size is not None:
        bpe = _filled(bpe, base_size)
    bpe.add_special_tokens(list(LLAMA_OWN))
    bpe.add_tokens(list(added))
    bpe.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A", special_tokens=[(BOS, bpe.token_to_id(BOS))]
    )
    return PreTrainedTokenizerFast(tokenizer_object=bpe, bos_token=BOS, eos_token=EOT, pad_token=EOT)


def _filled(bpe: Tokenizer, size: int) -> Tokenizer:
    raw = json.loads(bpe.to_str())
    vocabulary = raw["model"]["vocab"]
    vocabulary |= {f"<<nothing {number}>>": number for number in range(len(vocabulary), size)}
    return Tokenizer.from_str(json.dumps(raw))


def llasa_tokenizer(codes: int = CODES, base_size: int | None = None) -> PreTrainedTokenizerFast:
    made = tokenizer((*LLASA_OWN, *(f"<|s_{code}|>" for code in range(codes))), base_size)
    made.chat_template = CHAT_TEMPLATE
    return made


def orpheus_tokenizer(codes: int = CODES, base_size: int | None = None) -> PreTrainedTokenizerFast:
    """The public one has two tokens more than it needs, as here."""
    return tokenizer([f"<custom_token_{number}>" for number in range(10 + 7 * codes + 2)], base_size)


def neutts_tokenizer(codes: int = CODES, begins: bool = False) -> PreTrainedTokenizerFast:
    """Air's has no token for the beginning; Nano's, which is Llama's, `begins` with one."""
    made = tokenizer((*NEUTTS_OWN, *(f"<|speech_{code}|>" for code in range(codes))))
    if not begins:
        made.backend_tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return made


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
    """What transformers draws behind a prompt where no token is allowed but those of speech: codes, or -1.

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
    made = llasa_tokenizer()
    return write(folder, made, llama(made))


def write_orpheus(folder: Path) -> Public:
    made = orpheus_tokenizer()
    return write(folder, made, llama(made, tie_word_embeddings=False))


def write_neutts(folder: Path) -> Public:
    made = neutts_tokenizer()
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
        published_folder(folder, {**snac_folder.SMALL, "codebook_size": CODES})
    else:
        model_class = Xcodec2Model if family == "llasa" else NeuCodecModel
        write_folder(folder, model_class, quantization_levels=[4, 4, 2])
