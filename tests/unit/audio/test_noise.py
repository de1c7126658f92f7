"""Noise that a window and the whole utterance draw alike, and that does not repeat itself."""

from __future__ import annotations

import torch
from talkahead.audio.noise import Noise

SOURCE = Noise(subframes=2, size=640)


def test_the_same_place_makes_the_same_noise() -> None:
    numbers = torch.randint(1 << 20, (3, 20), generator=torch.Generator().manual_seed(0))
    assert torch.equal(SOURCE(numbers)[1:2, 10:14], SOURCE(numbers[1:2, 5:7]))


def test_places_side_by_side_do_not_repeat_and_are_white() -> None:
    pieces = SOURCE(2 * torch.arange(200)[None])[0]
    assert len(pieces.unique(dim=0)) == 400
    assert abs(float(pieces.std()) - 1) < 0.05
    likeness = torch.corrcoef(pieces) - torch.eye(400)
    assert float(likeness.abs().max()) < 0.25
