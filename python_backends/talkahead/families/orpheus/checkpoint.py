"""Public checkpoints of Orpheus."""

from __future__ import annotations

from talkahead.backbone.checkpoint import EMBEDDINGS, Checkpoint
from talkahead.families.frontend_config import FrontendConfig
from talkahead.families.imported_checkpoint import Download, ImportedCheckpoint
from talkahead.families.orpheus.prompt import VOICES, called
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

LAYOUT = TokenLayout("<custom_token_{}>", "<custom_token_2>", first=10, codebooks=7)
_POSITIONS = 3072
"""Its training had 8192, and its reference code draws up to 1200, of 82 a second; these are 25 s of speech
and 10 s of a reference."""
_LICENCE = "Apache-2.0, on a Llama-3.2-3B base under the Llama 3.2 Community License"
_CODEC_LICENCE = "MIT"
_SAMPLING = {"do_sample": True, "temperature": 0.6, "top_p": 0.8, "repetition_penalty": 1.1}


def read(download: Download, tokens: TextTokens) -> ImportedCheckpoint:
    refuse_phonemes(download, "orpheus")
    checkpoint = Checkpoint(download.folder)
    speech = LAYOUT.find(tokens, checkpoint.config, download.folder)
    max_positions, segment_positions = positions(download, checkpoint.config, _POSITIONS)
    voices = tuple(NamedVoice(name, tuple(tokens.ids(called(name)))) for name in VOICES)
    return ImportedCheckpoint(
        family="orpheus",
        download=download,
        licence=licence(download.folder, _LICENCE),
        codec_licence=licence(download.codec, _CODEC_LICENCE),
        talker=compact_config(checkpoint.config, speech),
        tensors=compact_tensors(checkpoint, speech),
        generation=_SAMPLING,
        table=checkpoint[EMBEDDINGS],
        encoder=EncoderConfig(speech.first, speech.codebooks, voices),
        frontend=FrontendConfig(),
        max_positions=max_positions,
        segment_positions=segment_positions,
    )
