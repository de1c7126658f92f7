"""Voices that the codec makes of one that the talker has learned: what they are, and how they sound."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from talkahead.errors import ArtifactMismatch
from talkahead.families.contracts import CodecWindow
from talkahead.families.phonemic.spectral_codec import CONTEXT, SpectralCodec
from talkahead.families.phonemic.spectral_decoder import Spectra, SpectralConfig, SpectralDecoder
from talkahead.families.phonemic.timbre import Timbre, smoothed
from talkahead.families.phonemic.voice import NAME, Voice, read_voices, save_voices, voices_of

from tests.unit.families.codec_windows import cut, spoken

SMALL = SpectralConfig(width=16, inner=24, blocks=2, hidden=8, pitch_width=16)
HEART, DEEP = Voice("heart", "heart"), Voice("deep", "heart", pitch=0.5, formants=0.8)


def test_voices_are_kept_beside_the_codec(tmp_path: Path) -> None:
    assert read_voices(tmp_path) == ()
    assert [voice.name for voice in voices_of(tmp_path, ("a", "b"))] == ["a", "b"]
    save_voices((HEART, DEEP), tmp_path)
    assert read_voices(tmp_path) == voices_of(tmp_path, ("heart",)) == (HEART, DEEP)
    with pytest.raises(ArtifactMismatch, match="heart is made of heart; the talker has learned slt"):
        voices_of(tmp_path, ("slt",))


@pytest.mark.parametrize("text", ["", "{", json.dumps([{"name": "a"}]), json.dumps([{"colour": 1}]), "[1]"])
def test_a_file_that_lists_no_voices_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / NAME).write_text(text)
    with pytest.raises(ArtifactMismatch, match="does not list voices"):
        read_voices(tmp_path)


def test_a_formant_moves_and_the_harmonics_within_it_are_smoothed() -> None:
    bins = torch.arange(SMALL.bins, dtype=torch.float64)
    formant = 3 * torch.exp(-(((bins - 100) / 25) ** 2))
    rippled = formant + 0.5 * torch.cos(2 * torch.pi * bins / 8)
    made = Timbre(SMALL, DEEP).double()(Spectra(*(rippled[None, None] for _ in range(4))))
    assert made.voice[0, 0].argmax().item() == pytest.approx(80, abs=1)
    moved = 3 * torch.exp(-(((bins / 0.8 - 100) / 25) ** 2))
    torch.testing.assert_close(made.voice[0, 0, :400], moved[:400], rtol=0, atol=0.05)
    assert (made.breath[0, 0, :400] - moved[:400]).abs().max() > 0.4
    assert made.phase[0, 0, 80] == rippled[100]


def test_smoothing_keeps_what_is_smooth() -> None:
    slow = torch.cos(torch.pi * torch.arange(601, dtype=torch.float64) / 600 * 20)[None]
    fast = torch.cos(torch.pi * torch.arange(601, dtype=torch.float64) / 600 * 90)[None]
    torch.testing.assert_close(smoothed(slow + fast, 70.0), slow, rtol=0, atol=1e-9)


@pytest.fixture(scope="module")
def decoder() -> SpectralDecoder:
    torch.manual_seed(3)
    made = SpectralDecoder(SMALL).double().eval().requires_grad_(False)
    made.spectra.bias.fill_(-3.0)
    return made


def test_each_voice_sounds_alone_as_in_company_and_cut_as_whole(decoder: SpectralDecoder) -> None:
    codec = SpectralCodec(decoder, torch.device("cpu"), (HEART, DEEP))
    frames = np.random.default_rng(1).integers(0, SMALL.num_codes, (24, 1))
    manners = [(1.0, 0), (1.0, 1), (1.2, 1), (1.0, 1)]
    alone = [spoken(codec, [[CodecWindow.whole(frames, *manner)]])[0] for manner in manners]
    windows = list(cut(frames, [5, 12, 7], CONTEXT, SMALL.lookahead_frames))
    parts = [[replace(window, speed=speed, voice=voice) for window in windows] for speed, voice in manners]
    for one, joined in zip(alone, spoken(codec, parts), strict=True):
        np.testing.assert_allclose(joined, one, rtol=0, atol=1e-7)
    assert np.abs(alone[0] - alone[1]).max() > 0.1 * np.abs(alone[0]).max()


def test_without_a_list_voices_are_the_talkers_own(decoder: SpectralDecoder) -> None:
    codec = SpectralCodec(decoder, torch.device("cpu"))
    frames = np.random.default_rng(1).integers(0, SMALL.num_codes, (24, 1))
    one, other = (spoken(codec, [[CodecWindow.whole(frames, voice=voice)]])[0] for voice in (0, 3))
    np.testing.assert_array_equal(one, other)
