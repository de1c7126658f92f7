"""Where speech begins, and how long it stops."""

from __future__ import annotations

import numpy as np
from talkahead_client.figures import first_audible

from instruments.recording import Recording

_HOP_S = 0.005
_RANGE_DB = 40.0
"""What is further below the loudest stretch is silence to a listener."""


def onset_ms(recording: Recording) -> float | None:
    """Time before the first audible sample; None when there is none."""
    first = first_audible(recording.samples)
    return None if first is None else 1000.0 * first / recording.rate_hz


def longest_silence_s(recording: Recording, first_s: float, beyond_s: float) -> float:
    """The longest silence that lies, at least in part, between two times."""
    hop = round(_HOP_S * recording.rate_hz)
    usable = len(recording.samples) // hop * hop
    level = np.sqrt(np.square(recording.samples[:usable].reshape(-1, hop), dtype=np.float64).mean(1))
    is_silent = np.concatenate([[False], level < level.max() * 10 ** (-_RANGE_DB / 20), [False]])
    changes = np.flatnonzero(is_silent[1:] != is_silent[:-1])
    begins, ends = changes[::2], changes[1::2]
    meets = (begins * _HOP_S < beyond_s) & (ends * _HOP_S > first_s)
    return float((ends - begins)[meets].max(initial=0)) * _HOP_S
