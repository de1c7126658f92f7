"""Fundamental frequency of speech by WORLD's DIO, refined by its StoneMask (Morise et al. 2009, 2016)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyworld

LOWEST_HZ, HIGHEST_HZ = 60.0, 400.0


def fundamentals_hz(
    samples: npt.NDArray[np.float64], sample_rate_hz: int, period_s: float, highest_hz: float = HIGHEST_HZ
) -> npt.NDArray[np.float64]:
    """Frequency at every `period_s` of samples [N] in -1..1, from their start; 0 where unvoiced."""
    raw, times = pyworld.dio(
        samples,
        sample_rate_hz,
        f0_floor=LOWEST_HZ,
        f0_ceil=highest_hz,
        frame_period=1000 * period_s,
    )
    refined: npt.NDArray[np.float64] = pyworld.stonemask(samples, raw, times, sample_rate_hz)
    return refined
