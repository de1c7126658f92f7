"""Time warping finds where another recording says the same."""

from __future__ import annotations

import numpy as np
import pytest

from instruments.recording import Recording
from training.time_warp import TimeWarp

RATE_HZ = 16_000
TONES_HZ = (300, 1_100, 500, 2_300, 800)


def tones(seconds: float) -> Recording:
    """One after the other, each as long."""
    time_s = np.arange(round(seconds * RATE_HZ)) / RATE_HZ
    rng = np.random.default_rng(0)
    parts = [0.5 * np.sin(2 * np.pi * hertz * time_s) for hertz in TONES_HZ]
    noise = 1e-3 * rng.standard_normal(len(TONES_HZ) * len(time_s))
    return Recording((np.concatenate(parts) + noise).astype(np.float32), RATE_HZ)


@pytest.mark.parametrize("factor", [0.6, 1.0, 1.7])
def test_a_change_of_tone_is_found_at_another_pace(factor: float) -> None:
    warp = TimeWarp(tones(0.2), tones(factor * 0.2))
    for number in range(1, len(TONES_HZ)):
        assert warp.to_second(0.2 * number) == pytest.approx(0.2 * number * factor, abs=0.03)
