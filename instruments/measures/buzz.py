"""Buzz: a spectrum that is too flat while the voice sounds, and energy where the teacher has little."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from instruments.measures.frames import Audio, Floats, bins_hz, power_spectra

_SPEECH_HZ = (100.0, 7_800.0)
_HIGH_HZ = 4_000.0
_FLOOR = 1e-10


@dataclass(frozen=True)
class Buzz:
    """In decibels; None where nothing is voiced."""

    flatness_db: float | None
    """Geometric over arithmetic mean of the power spectrum, averaged over voiced frames: 0 is noise."""
    high_band_db: float | None
    """Energy above 4 kHz over all energy, of the voiced frames together."""


def buzz(audio: Audio, fundamentals: Floats) -> Buzz:
    """Of the frames whose fundamental frequency [T] is not 0."""
    voiced = fundamentals > 0
    if not voiced.any():
        return Buzz(None, None)
    frequencies = bins_hz()
    in_band = (frequencies >= _SPEECH_HZ[0]) & (frequencies <= _SPEECH_HZ[1])
    power = power_spectra(audio)[voiced][:, in_band] + _FLOOR
    flatness = 10.0 * (np.log10(power).mean(1) - np.log10(power.mean(1)))
    high = power[:, frequencies[in_band] >= _HIGH_HZ].sum() / power.sum()
    return Buzz(float(flatness.mean()), float(10.0 * np.log10(high)))
