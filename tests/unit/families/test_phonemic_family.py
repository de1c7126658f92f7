"""The family serves the codec that a vocoder's folder holds, and no other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from talkahead.errors import ArtifactMismatch
from talkahead.families.phonemic.spectral_codec import SpectralCodec, speech_format
from talkahead.families.phonemic.spectral_decoder import SpectralConfig, SpectralDecoder
from talkahead.families.registry import load_family

SMALL = SpectralConfig(width=16, inner=16, blocks=1)
FAMILY = load_family("phonemic")
CPU = torch.device("cpu")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    SpectralDecoder(SMALL).save(tmp_path)
    speech_format(SMALL, silence=3, max_positions=1_536).save(tmp_path)
    return tmp_path


def test_a_spectral_codec_is_served(folder: Path) -> None:
    assert isinstance(FAMILY.codec(folder, CPU), SpectralCodec)


def test_a_format_of_another_codec_is_refused(folder: Path) -> None:
    replace(speech_format(SMALL, silence=3, max_positions=1_536), hop=300).save(folder)
    with pytest.raises(ArtifactMismatch, match=r"format\.json is not that of codec\.json"):
        FAMILY.codec(folder, CPU)


def test_a_voice_without_an_encoder_takes_no_recordings() -> None:
    assert speech_format(SMALL, silence=3, max_positions=1_536).reference_positions == 0
