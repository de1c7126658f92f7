"""Tokenizers in the public layouts, as their publishers' packages write them, of a vocabulary of our own.

A byte-level BPE of the words below, the base model's own tokens, then the family's in the order in which it
added them. Ids are not the public ones, unless `base_size` makes them so.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

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
    """A fast tokenizer in the form of Llama 3's and Qwen 2's, with tokens of its own after the base.

    Args:
        base_size: of the base vocabulary, which is filled up with entries that no text has.
    """
    bpe = Tokenizer(models.BPE())
    parts = [pre_tokenizers.Split(_SPLIT, "isolated"), pre_tokenizers.ByteLevel(False, use_regex=False)]
    bpe.pre_tokenizer = pre_tokenizers.Sequence(parts)
    bpe.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    bpe.train_from_iterator(
        _TEXT, trainers.BpeTrainer(vocab_size=420, initial_alphabet=alphabet, show_progress=False)
    )
    if base_size is not None:
        bpe = _filled(bpe, base_size)
    bpe.add_special_tokens(list(LLAMA_OWN))
    bpe.add_tokens(list(added))
    bpe.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A", special_tokens=[(BOS, bpe.token_to_id(BOS))]
    )
    made: PreTrainedTokenizerFast = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=bpe, bos_token=BOS, eos_token=EOT, pad_token=EOT
    )
    return made


def _filled(bpe: Tokenizer, size: int) -> Tokenizer:
    raw = json.loads(bpe.to_str())
    vocabulary = raw["model"]["vocab"]
    vocabulary |= {f"<<nothing {number}>>": number for number in range(len(vocabulary), size)}
    return Tokenizer.from_str(json.dumps(raw))


def llasa_tokenizer(codes: int, base_size: int | None = None) -> PreTrainedTokenizerFast:
    made = tokenizer((*LLASA_OWN, *(f"<|s_{code}|>" for code in range(codes))), base_size)
    made.chat_template = CHAT_TEMPLATE
    return made


def orpheus_tokenizer(codes: int, base_size: int | None = None) -> PreTrainedTokenizerFast:
    """The public one has two tokens more than it needs, as here."""
    return tokenizer([f"<custom_token_{number}>" for number in range(10 + 7 * codes + 2)], base_size)


def neutts_tokenizer(
    codes: int, begins: bool = False, base_size: int | None = None
) -> PreTrainedTokenizerFast:
    """Air's has no token for the beginning; Nano's, which is Llama's, `begins` with one."""
    made = tokenizer((*NEUTTS_OWN, *(f"<|speech_{code}|>" for code in range(codes))), base_size)
    if not begins:
        made.backend_tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return made
