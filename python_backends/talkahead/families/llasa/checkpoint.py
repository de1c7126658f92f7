"""Public checkpoints of Llasa, and of Llasa+ and Medusa, which are the same with a draft."""

from __future__ import annotations

from pathlib import Path

from talkahead.backbone.checkpoint import EMBEDDINGS, Checkpoint
from talkahead.config import SamplingDefaults
from talkahead.errors import ArtifactMismatch
from talkahead.families.frontend_config import FrontendConfig
from talkahead.families.imported_checkpoint import Download, ImportedCheckpoint
from talkahead.families.library import library
from talkahead.families.llasa.drafts import decoder_name, imported_drafts
from talkahead.families.table_encoder import EncoderConfig, NamedVoice
from talkahead.families.text_tokens import TextTokens
from talkahead.families.token_checkpoint import (
    compact_config,
    compact_tensors,
    licence,
    positions,
    refuse_phonemes,
)
from talkahead.families.token_layout import TokenLayout

LAYOUT = TokenLayout("<|s_{}|>", "<|SPEECH_GENERATION_END|>")
_POSITIONS = 2048
"""Of its training, and of the reference's `max_length`."""
_LICENCE = "CC-BY-NC-4.0"
_SAMPLING = SamplingDefaults(temperature=0.8, top_p=1.0, top_k=50)
"""`top_k` is that of transformers' `generate`, where its code says nothing else."""
_PLUS_SAMPLING = SamplingDefaults(temperature=1.0, top_p=1.0, top_k=50)
_TEXT_STARTS, _TEXT_ENDS = "<|TEXT_UNDERSTANDING_START|>", "<|TEXT_UNDERSTANDING_END|>"
_DATE = "26 Jul 2024"
"""What Llama 3's templates say where nobody knows the date. Training said the day that it ran on, and the
reference says today; a prompt that changes overnight would change what a seed says."""


def read(download: Download, tokens: TextTokens) -> ImportedCheckpoint:
    refuse_phonemes(download, "llasa")
    checkpoint = Checkpoint(download.folder, decoder_name)
    speech = LAYOUT.find(tokens, checkpoint.config, download.folder)
    max_positions, segment_positions = positions(download, checkpoint.config, _POSITIONS)
    before, after = chat_template(download.folder)
    drafts = imported_drafts(download.folder, checkpoint, speech)
    return ImportedCheckpoint(
        family="llasa",
        download=download,
        licence=licence(download.folder, _LICENCE),
        codec_licence=licence(download.codec, _LICENCE),
        talker=compact_config(checkpoint.config, speech),
        tensors=compact_tensors(checkpoint, speech),
        sampling=_PLUS_SAMPLING if any(one.drafter == "mtp" for one in drafts) else _SAMPLING,
        table=checkpoint[EMBEDDINGS],
        encoder=EncoderConfig(speech.first, speech.codebooks, (NamedVoice("default"),)),
        frontend=FrontendConfig(before, after),
        max_positions=max_positions,
        segment_positions=segment_positions,
        drafts=drafts,
    )


def chat_template(folder: Path) -> tuple[str, str]:
    """What the folder's own template writes before and after a text, whose speech then goes on."""
    tokenizer = library("transformers").AutoTokenizer.from_pretrained(folder)
    if tokenizer.chat_template is None:
        raise ArtifactMismatch(
            f"{folder} has no chat template, in which Llasa is prompted; allowed: chat_template in "
            "tokenizer_config.json, or chat_template.jinja, as the checkpoint's publishers have it"
        )
    messages = [
        {"role": "user", "content": f"Convert the text to speech:{_TEXT_STARTS}{_TEXT_ENDS}"},
        {"role": "assistant", "content": "<|SPEECH_GENERATION_START|>"},
    ]
    written: str = tokenizer.apply_chat_template(
        messages, tokenize=False, continue_final_message=True, date_string=_DATE
    )
    before, text_ends, after = written.partition(_TEXT_ENDS)
    return before, text_ends + after
