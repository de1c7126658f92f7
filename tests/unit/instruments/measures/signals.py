"""Sounds whose measures are known."""

from __future__ import annotations

import numpy as np

from instruments.measures.frames import SAMPLE_RATE_HZ, Audio, Floats


def int16(samples: Floats) -> Audio:
    audio: Audio = np.round(32767 * samples).astype(np.int16)
    return audio


def times(seconds: float) -> Floats:
    return np.arange(round(seconds * SAMPLE_RATE_HZ)) / SAMPLE_RATE_HZ


def vowel(fundamental_hz: float, seconds: float = 1.0, tilt: float = 1.0) -> Audio:
    """Harmonics up to 7 kHz whose amplitudes fall with the harmonic's number to the power of `tilt`."""
    numbers = np.arange(1, int(7_000 / fundamental_hz) + 1)[:, None]
    waves = np.sin(2 * np.pi * fundamental_hz * numbers * times(seconds)) / numbers**tilt
    total = waves.sum(0)
    return int16(0.5 * total / np.abs(total).max())


def noise(seconds: float = 1.0, level: float = 0.1, seed: int = 0) -> Audio:
    return int16(np.clip(level * np.random.default_rng(seed).normal(size=len(times(seconds))), -1, 1))


def silence(seconds: float) -> Audio:
    return np.zeros(len(times(seconds)), dtype=np.int16)
