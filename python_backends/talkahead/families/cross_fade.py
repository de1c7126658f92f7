"""How two decodings of the same stretch become one, where windows overlap."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Samples = npt.NDArray[np.float32]


def cross_fade(fading: Samples, rising: Samples) -> Samples:
    """From one [N] to the other, at equal power.

    Sine and cosine keep the power of pieces that are strangers, and would raise by 3 dB that of pieces which
    are nearly the same, as those of one utterance are. So both are scaled by how alike the pieces are; equal
    ones pass unchanged.
    """
    angle = (np.arange(len(fading)) + 0.5) * (np.pi / 2 / len(fading))
    fall, rise = np.cos(angle), np.sin(angle)
    power = np.sqrt(1 + 2 * _likeness(fading, rising) * fall * rise)
    joined: Samples = ((fall * fading + rise * rising) / power).astype(np.float32)
    return joined


def _likeness(one: Samples, other: Samples) -> float:
    """Their correlation, and 0 where it is negative: what is out of phase is not raised."""
    energy = float(np.sqrt(np.dot(one, one) * np.dot(other, other)))
    return max(float(np.dot(one, other)) / energy, 0.0) if energy else 0.0
