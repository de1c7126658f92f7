"""Pitch of sounds with a known fundamental, and the distance of known intervals."""

from __future__ import annotations

import numpy as np
import pytest
from signals import noise, silence, vowel

from instruments.measures.pitch import fundamentals_hz, pitch_error


@pytest.mark.parametrize("hertz", [90.0, 130.0, 200.0])
def test_fundamental_of_a_vowel(hertz: float) -> None:
    contour = fundamentals_hz(vowel(hertz))
    assert len(contour) == 100
    assert np.median(contour) == pytest.approx(hertz, rel=0.005)


def test_noise_and_silence_are_mostly_unvoiced() -> None:
    for sound in (noise(), silence(1.0)):
        assert (fundamentals_hz(sound) > 0).mean() < 0.3


def test_a_semitone_is_a_hundred_cents() -> None:
    one = np.array([100.0, 0.0, 200.0, 150.0])
    other = np.array([100.0 * 2 ** (1 / 12), 120.0, 200.0 / 2 ** (1 / 12), 0.0])
    error = pitch_error(one, other)
    assert error.rmse_cents == pytest.approx(100.0)
    assert error.voicing_percent == 50.0


def test_without_a_voiced_frame_there_is_no_error_to_tell() -> None:
    assert pitch_error(np.zeros(3), np.ones(3)).rmse_cents is None
