"""Refining moves the decoder alone, away from what the discriminator catches."""

from __future__ import annotations

import argparse

import torch
from talkahead.audio.codec import Codec, CodecConfig

from training.refine_codec import Refinement
from training.train_codec import Crops

SMALL = CodecConfig(encoder_width=16, encoder_blocks=1, decoder_width=16, decoder_hidden=16, decoder_blocks=1)


def test_codes_stay_and_the_decoder_learns() -> None:
    torch.manual_seed(0)
    codec = Codec(SMALL)
    options = argparse.Namespace(rate=1e-3, judge_rate=1e-3, spectral=1.0, deception=0.1, features=1.0)
    refinement = Refinement(codec, options)
    audio = 0.1 * torch.randn(2, 16 * SMALL.hop)
    hertz = torch.full((2, 16), 100.0)
    batch = Crops(audio, hertz, torch.from_numpy(SMALL.pitch_scale.levels(hertz.double().numpy())))
    lengths = torch.tensor([16, 16])
    codes, before = codec.encode(audio, lengths), codec.decoder.outward.weight.detach().clone()
    judge = {name: value.clone() for name, value in refinement.judge.state_dict().items()}
    losses = [refinement.step(batch) for _ in range(3)]
    assert torch.equal(codec.encode(audio, lengths), codes)
    assert not torch.equal(codec.decoder.outward.weight, before)
    assert any(not torch.equal(value, judge[name]) for name, value in refinement.judge.state_dict().items())
    assert losses[-1]["judge"] < losses[0]["judge"]
