"""Overlapping frames of audio, ten milliseconds apart: what spectra and pitch are measured on."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Audio = npt.NDArray[np.int16]
"""Mono, 16 kHz, [samples]."""
Floats = npt.NDArray[np.float64]

SAMPLE_RATE_HZ = 16_000
HOP = 160
_SIZE = 512


def full_scale(audio: Audio) -> Floats:
    """Samples in -1..1."""
    return audio.astype(np.float64) / 32768.0


def to_int16(audio: npt.NDArray[np.float32]) -> Audio:
    """Of samples in -1..1; what is beyond is clipped."""
    clipped: Audio = (np.clip(audio, -1.0, 1.0) * 32767.0).astype(np.int16)
    return clipped


def power_spectra(audio: Audio) -> Floats:
    """Power of each frame [T, 257], T = len(audio) // HOP, frames centred at (i + 1/2) * HOP."""
    edge = (_SIZE - HOP) // 2
    padded = np.pad(full_scale(audio), (edge, _SIZE))
    frames = np.lib.stride_tricks.sliding_window_view(padded, _SIZE)[::HOP][: len(audio) // HOP]
    spectra = np.fft.rfft(frames * np.hanning(_SIZE))
    power: Floats = spectra.real**2 + spectra.imag**2
    return power


def bins_hz() -> Floats:
    """Frequency of each bin of `power_spectra`."""
    frequencies: Floats = np.fft.rfftfreq(_SIZE, 1 / SAMPLE_RATE_HZ)
    return frequencies
