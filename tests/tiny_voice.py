"""A voice of tiny untrained networks in the shape of the one that is served."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.backbone.llama import Llama
from talkahead.config import SamplingDefaults
from talkahead.families.phonemic.spectral_codec import speech_format
from talkahead.families.phonemic.spectral_decoder import SpectralConfig, SpectralDecoder
from talkahead.families.phonemic.text_encoder import TextEncoder, TextEncoderConfig
from talkahead.generation_config import write_sampling
from talkahead.manifest import Manifest, sha256
from talkahead.speech_format import SpeechFormat
from talkahead.text.symbols import NUM_SYMBOLS

CODEC = SpectralConfig(
    sound_levels=(4,),
    prosody_levels=(3, 2),
    width=16,
    inner=32,
    blocks=2,
    hidden=16,
    pitch_width=16,
    lookahead=2,
)
CODES = CODEC.num_codes
HOP, RATE_HZ = CODEC.hop, CODEC.sample_rate_hz
SPEECH = speech_format(CODEC, silence=0, max_positions=1536)
LISTENING = replace(SPEECH, has_encoder=True)
"""The format of such a voice whose codec encodes recordings."""


def write_codec(folder: Path) -> None:
    """At about a tenth of full scale: nothing that is compared is clipped."""
    decoder = SpectralDecoder(CODEC).requires_grad_(False)
    decoder.spectra.bias.fill_(-1.0)
    decoder.save(folder)


def write_repository(folder: Path, speech: SpeechFormat = SPEECH) -> Path:
    """Artifacts in the shape of `model_repository`, with their manifests."""
    torch.manual_seed(0)
    write_codec(folder / "vocoder" / "1")
    speech.save(folder / "vocoder" / "1")
    encoder = TextEncoderConfig(voices=("slt", "rms"), num_symbols=NUM_SYMBOLS, width=32, heads=2, blocks=1)
    TextEncoder(encoder).save(folder / "encoder" / "1")
    llama = DecoderConfig(
        vocab_size=CODES + 1,
        eos_token_id=CODES,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=1536,
    )
    Llama(llama).save(folder / "talker" / "1")
    write_sampling(SamplingDefaults(), folder / "talker" / "1")
    for model in ("vocoder", "encoder", "talker"):
        describe(folder / model / "1")
    return folder


def describe(artifact: Path) -> None:
    """Writes the manifest of what lies in a version folder."""
    files = {path.name: sha256(path) for path in artifact.iterdir() if path.is_file()}
    Manifest("make tiny", "unknown", "none", 0, {}, files, "Apache-2.0").write(artifact)
