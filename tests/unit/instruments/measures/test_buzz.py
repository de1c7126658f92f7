"""Noise is flat, a vowel is not; a high tone is in the high band."""

from __future__ import annotations

import numpy as np
import pytest
from signals import int16, noise, silence, times, vowel

from instruments.measures.buzz import Buzz, buzz

VOICED = np.full(100, 100.0)


def test_noise_is_flat_and_half_of_it_is_high() -> None:
    measured = buzz(noise(), VOICED)
    assert measured.flatness_db == pytest.approx(-2.5, abs=0.3)  # of a chi-square with two degrees of freedom
    assert measured.high_band_db == pytest.approx(-3.0, abs=0.3)


def test_a_brighter_vowel_is_flatter_and_higher() -> None:
    dark, bright = buzz(vowel(100, tilt=2.0), VOICED), buzz(vowel(100, tilt=0.5), VOICED)
    assert dark.flatness_db is not None and bright.flatness_db is not None
    assert dark.high_band_db is not None and bright.high_band_db is not None
    assert bright.flatness_db > dark.flatness_db + 5
    assert bright.high_band_db > dark.high_band_db + 10


def test_energies_of_two_tones() -> None:
    low, high = np.sin(2 * np.pi * 1000 * times(1.0)), np.sin(2 * np.pi * 6000 * times(1.0))
    assert buzz(int16(0.5 * low + 0.05 * high), VOICED).high_band_db == pytest.approx(-20.0, abs=0.2)


def test_unvoiced_frames_do_not_count() -> None:
    sound = np.concatenate([vowel(100, 0.5), noise(0.5)])
    vowel_alone = VOICED * (np.arange(100) < 48)
    assert buzz(sound, vowel_alone).flatness_db == pytest.approx(
        buzz(vowel(100, 0.5), VOICED[:50]).flatness_db, abs=1.5
    )
    assert buzz(silence(1.0), np.zeros(100)) == Buzz(None, None)
