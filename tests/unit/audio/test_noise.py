"""Noise that a window and the whole utterance draw alike, and that does not repeat itself."""

from __future__ import annotations

import torch
from talkahead.audio.noise import Noise
from talkahead.audio.pitch import PERIOD, PitchScale

SOURCE = Noise(subframes=2, size=640)


def test_the_same_phase_makes_the_same_noise() -> None:
    phases = torch.randint(PERIOD, (3, 20), generator=torch.Generator().manual_seed(0))
    assert torch.equal(SOURCE(phases)[1:2, 10:14], SOURCE(phases[1:2, 5:7]))


def test_unvoiced_frames_do_not_repeat_and_are_white() -> None:
    step = int(PitchScale(67.0, 210.0, 16).advances(0.02)[0, 0])
    pieces = SOURCE(torch.arange(200)[None] * step % PERIOD)[0]
    assert len(pieces.unique(dim=0)) == 400
    assert abs(float(pieces.std()) - 1) < 0.05
    likeness = torch.corrcoef(pieces) - torch.eye(400)
    assert float(likeness.abs().max()) < 0.25
