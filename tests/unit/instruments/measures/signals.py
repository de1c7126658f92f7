"""Sounds whose measures are known."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from instruments.recording import Recording

RATE_HZ = 24_000


def recording(*parts: npt.NDArray[np.float64]) -> Recording:
    """One after the other."""
    return Recording(np.concatenate(parts).astype(np.float32), RATE_HZ)


def times(seconds: float) -> npt.NDArray[np.float64]:
    return np.arange(round(seconds * RATE_HZ)) / RATE_HZ


def tone(level: float = 0.5, seconds: float = 1.0) -> npt.NDArray[np.float64]:
    return level * np.sin(2 * np.pi * 200 * times(seconds))


def silence(seconds: float) -> npt.NDArray[np.float64]:
    return np.zeros(len(times(seconds)))
