"""How much of speech a copy keeps: STOI (Taal et al. 2011), 0 to 1, for audio aligned sample by sample."""

from __future__ import annotations

import warnings

from pystoi import stoi

from instruments.recording import Recording


def short_time_intelligibility(original: Recording, copy: Recording) -> float | None:
    """Of a copy beside its original; what one of them has more at its end is left out.

    None for less than 0.4 s of speech: STOI needs thirty frames.
    """
    rate_hz = min(original.rate_hz, copy.rate_hz)
    clean, other = original.at(rate_hz), copy.at(rate_hz)
    length = min(len(clean), len(other))
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "Not enough STFT frames", RuntimeWarning)
        try:
            return float(stoi(clean[:length], other[:length], rate_hz))
        except RuntimeWarning:
            return None
