"""Pitch by WORLD's DIO, refined by its StoneMask: fundamental frequencies and how far two contours differ."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from instruments import pitch_track
from instruments.measures.frames import HOP, SAMPLE_RATE_HZ, Audio, Floats, full_scale


def fundamentals_hz(audio: Audio) -> Floats:
    """Fundamental frequency of each frame [T], T = len(audio) // HOP; 0 where the speech is unvoiced."""
    contour = pitch_track.fundamentals_hz(full_scale(audio), SAMPLE_RATE_HZ, HOP / SAMPLE_RATE_HZ)
    return contour[: len(audio) // HOP]


@dataclass(frozen=True)
class PitchError:
    """Between two matched contours."""

    rmse_cents: float | None
    """Over frames that are voiced in both; None where no frame is."""
    voicing_percent: float
    """Frames that are voiced in one only."""


def pitch_error(one: Floats, other: Floats) -> PitchError:
    """How two contours [L], matched frame by frame, differ."""
    voiced = (one > 0) & (other > 0)
    cents = 1200.0 * np.log2(one[voiced] / other[voiced])
    rmse = float(np.sqrt(np.mean(cents**2))) if voiced.any() else None
    return PitchError(rmse, 100.0 * float(np.mean((one > 0) != (other > 0))))
