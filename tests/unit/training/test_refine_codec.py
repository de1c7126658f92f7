"""Refining moves the codec away from what the discriminator catches and towards the phones that were said."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest
import torch
from talkahead.audio.codec import Codec, CodecConfig

from training.phone_classifier import PhoneClassifier, hearing_distance
from training.refine_codec import WEIGHTS, Refinement
from training.train_codec import Crops

SMALL = CodecConfig(encoder_width=16, encoder_blocks=1, decoder_width=16, decoder_hidden=16, decoder_blocks=1)


@pytest.fixture
def phones(tmp_path: Path) -> Path:
    torch.manual_seed(1)
    PhoneClassifier().save(tmp_path / "phones.safetensors")
    return tmp_path / "phones.safetensors"


def crops() -> Crops:
    audio = 0.1 * torch.randn(2, 16 * SMALL.hop)
    hertz = torch.full((2, 16), 100.0)
    return Crops(audio, hertz, torch.from_numpy(SMALL.pitch_scale.levels(hertz.double().numpy())))


@pytest.mark.parametrize("codes", [False, True], ids=["decoder", "codes too"])
def test_codes_stay_unless_they_shall_not(phones: Path, codes: bool) -> None:
    torch.manual_seed(0)
    codec = Codec(SMALL)
    weights = {f"{name}_weight": weight for name, weight, _ in WEIGHTS}
    options = argparse.Namespace(rate=1e-3, judge_rate=1e-3, phones=phones, codes=codes, **weights)
    refinement = Refinement(codec, options)
    batch = crops()
    encoder, decoder = (
        part.get_parameter("weight").detach().clone()
        for part in (codec.encoder.outward, codec.decoder.outward)
    )
    judge = {name: value.clone() for name, value in refinement.judge.state_dict().items()}
    losses = [refinement.step(batch) for _ in range(3)]
    assert torch.equal(codec.encoder.outward.weight, encoder) is not codes
    assert not torch.equal(codec.decoder.outward.weight, decoder)
    assert any(not torch.equal(value, judge[name]) for name, value in refinement.judge.state_dict().items())
    assert losses[-1]["judge"] < losses[0]["judge"]


def test_a_copy_that_sounds_otherwise_is_told_from_one_that_does_not(phones: Path) -> None:
    listener, audio = PhoneClassifier.load(phones), 0.1 * torch.randn(1, 3_200)
    same, faint, other = (
        float(hearing_distance(listener(audio), listener(copy)))
        for copy in (audio, audio + 1e-4 * torch.randn(1, 3_200), audio.roll(400))
    )
    assert same == pytest.approx(0.0, abs=1e-6)
    assert same < faint < other
