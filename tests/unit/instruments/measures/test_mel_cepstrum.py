"""Distances are decibels between smooth spectra, whatever the loudness and the speed."""

from __future__ import annotations

import numpy as np
import pytest
from signals import noise, vowel

from instruments.measures.mel_cepstrum import mean_distance_db, mel_cepstra, warping


def test_loudness_does_not_count() -> None:
    loud, quiet = noise(level=0.2), noise(level=0.05)
    assert mean_distance_db(mel_cepstra(loud), mel_cepstra(quiet)) < 0.3


def test_a_tilt_is_as_far_as_its_decibels() -> None:
    # A straight line in decibels over the mel bands, 12 dB from end to end, is 12 / sqrt(12) dB in the mean
    # square; its first 13 cosines hold nearly all of it.
    flat = mel_cepstra(noise(seconds=20.0))
    spectrum = np.fft.rfft(noise(seconds=20.0) / 32768.0)
    hertz = np.fft.rfftfreq(320_000, 1 / 16_000)
    mel = np.log10(1 + hertz / 700) / np.log10(1 + 8_000 / 700)
    tilted = np.fft.irfft(spectrum * 10 ** (-12 * mel / 20))
    difference = mel_cepstra((tilted * 32767).astype(np.int16)).mean(0) - flat.mean(0)
    assert np.linalg.norm(difference) == pytest.approx(12 / np.sqrt(12), rel=0.05)


def test_warping_follows_a_change_of_speed() -> None:
    sounds = [vowel(100, 0.3, tilt=0.5), noise(0.3), vowel(100, 0.3, tilt=2.0)]
    slower = [vowel(100, 0.5, tilt=0.5), noise(0.2), vowel(100, 0.4, tilt=2.0)]
    one, other = (mel_cepstra(np.concatenate(parts)) for parts in (sounds, slower))
    here, there = warping(one, other)
    assert (here[0], there[0]) == (0, 0)
    assert (here[-1], there[-1]) == (len(one) - 1, len(other) - 1)
    matched = mean_distance_db(one[here], other[there])
    assert matched < 0.3 * mean_distance_db(one, other[: len(one)])
