"""Where speech begins, and how long it stops."""

from __future__ import annotations

import numpy as np
from talkahead_client.figures import first_audible

from instruments.measures.frames import SAMPLE_RATE_HZ, Audio, full_scale

_HOP = 80
_RANGE_DB = 40.0
"""What is further below the loudest stretch is silence to a listener."""


def onset_ms(audio: Audio) -> float | None:
    """Time before the first audible sample; None when there is none."""
    first = first_audible(full_scale(audio).astype(np.float32))
    return None if first is None else 1000.0 * first / SAMPLE_RATE_HZ


def longest_silence_s(audio: Audio, first: int, beyond: int) -> float:
    """The longest silence that lies, at least in part, between samples `first` and `beyond`."""
    usable = len(audio) // _HOP * _HOP
    level = np.sqrt((full_scale(audio[:usable]).reshape(-1, _HOP) ** 2).mean(1))
    is_silent = np.concatenate([[False], level < level.max() * 10 ** (-_RANGE_DB / 20), [False]])
    changes = np.flatnonzero(is_silent[1:] != is_silent[:-1])
    begins, ends = changes[::2], changes[1::2]
    meets = (begins * _HOP < beyond) & (ends * _HOP > first)
    return float((ends - begins)[meets].max(initial=0)) * _HOP / SAMPLE_RATE_HZ
