"""Public checkpoints of NeuTTS, Air and Nano, and voices that are stored beside their weights."""

from __future__ import annotations

from talkahead.backbone.checkpoint import EMBEDDINGS, Checkpoint
from talkahead.errors import ArtifactMismatch
from talkahead.families.frontend_config import FrontendConfig
from talkahead.families.imported_checkpoint import Download, ImportedCheckpoint
from talkahead.families.neutts.family import ESPEAK, OWN, neutts_spelling
from talkahead.families.neutts.stored_voices import read_voices
from talkahead.families.table_encoder import EncoderConfig
from talkahead.families.text_tokens import TextTokens
from talkahead.families.token_checkpoint import compact_config, compact_tensors, licence, positions
from talkahead.families.token_layout import TokenLayout

LAYOUT = TokenLayout("<|speech_{}|>", "<|SPEECH_GENERATION_END|>")
_POSITIONS = 2048
"""`max_context` of the reference."""
_LICENCE = "Apache-2.0"
_SAMPLING = {"do_sample": True, "temperature": 1.0, "top_k": 50}


def read(download: Download, tokens: TextTokens) -> ImportedCheckpoint:
    frontend = FrontendConfig(phonemes=_phonemes(download))
    checkpoint = Checkpoint(download.folder)
    speech = LAYOUT.find(tokens, checkpoint.config, download.folder)
    max_positions, segment_positions = positions(download, checkpoint.config, _POSITIONS)
    voices = read_voices(
        download.folder,
        lambda text: tokens.ids(neutts_spelling(tokens, frontend).spell(text)),
        codebook=speech.num_codes,
        room=max_positions - segment_positions,
    )
    return ImportedCheckpoint(
        family="neutts",
        download=download,
        licence=licence(download.folder, _LICENCE),
        codec_licence=licence(download.codec, _LICENCE),
        talker=compact_config(checkpoint.config, speech),
        tensors=compact_tensors(checkpoint, speech),
        generation=_SAMPLING,
        table=checkpoint[EMBEDDINGS],
        encoder=EncoderConfig(speech.first, speech.codebooks, voices),
        frontend=frontend,
        max_positions=max_positions,
        segment_positions=segment_positions,
    )


def _phonemes(download: Download) -> str:
    asked = download.phonemes or OWN
    if asked not in (OWN, ESPEAK):
        raise ArtifactMismatch(f"--phonemes: {asked!r} is not accepted; allowed: {OWN}, {ESPEAK}")
    return asked
