"""The voice's source has the pitch it is told, without a seam between pieces, frames or windows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from talkahead.audio.harmonics import Harmonics
from talkahead.audio.pitch import gap
from torch import Tensor

RATE, HOP, SIZE = 16_000, 320, 640


@pytest.fixture(scope="module")
def source() -> Harmonics:
    return Harmonics(RATE, HOP, subframes=2, size=SIZE)


def phases(hertz: Tensor) -> Tensor:
    begin, end = gap(hertz[:, :-1], hertz[:, 1:])
    return torch.nn.functional.pad(((begin + end) / 2 * HOP / RATE).cumsum(1), (1, 0))


def test_phase_has_no_seam_between_pieces_and_frames(source: Harmonics) -> None:
    hertz = torch.tensor([[0, 0, 81, 90, 90, 120, 110, 65, 65, 65, 0, 0, 210.0, 215, 190]]).double()
    turns = source.turns(hertz, phases(hertz))[0].unflatten(1, (2, SIZE))

    def assert_same(one: Tensor, other: Tensor) -> None:
        apart = one - other
        assert (apart - apart.round()).abs().max() < 1e-9

    assert_same(turns[:, 0, 160:], turns[:, 1, :-160])
    assert_same(turns[:-1, 1, 160:320], turns[1:, 0, :160])


@pytest.mark.parametrize("pitch", [65.0, 110.0, 215.0])
def test_the_pitch_is_the_one_asked_for(source: Harmonics, pitch: float) -> None:
    hertz = torch.full((1, 50), pitch).double()
    made = source(hertz, phases(hertz))[0][:, :160].flatten().numpy()[1600:]
    spectrum = np.abs(np.fft.rfft(made * np.hanning(len(made))))
    frequencies = np.fft.rfftfreq(len(made), 1 / RATE)
    first = frequencies[np.argmax(np.where(frequencies < 1.5 * pitch, spectrum, 0))]
    assert first == pytest.approx(pitch, abs=RATE / len(made))
    assert np.sqrt(np.mean(made**2)) == pytest.approx(1.0, abs=0.1)


def test_unvoiced_frames_are_silent(source: Harmonics) -> None:
    nothing = torch.zeros(1, 8)
    assert not source(nothing, phases(nothing)).any()
