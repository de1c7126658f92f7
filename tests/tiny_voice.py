"""A voice of tiny untrained networks in the shape of the one that is served."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from talkahead.families.phonemic.spectral_codec import speech_format
from talkahead.families.phonemic.spectral_decoder import SpectralConfig, SpectralDecoder

CODEC = SpectralConfig(
    sound_levels=(4,), prosody_levels=(3, 2), width=16, inner=24, blocks=2, hidden=8, pitch_width=16
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
