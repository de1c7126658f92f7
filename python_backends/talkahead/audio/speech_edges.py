"""Where speech begins and ends in a recording, by its energy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

BEFORE_S, AFTER_S = 0.01, 0.10
"""Silence around the speech of the corpus."""
_WINDOW_S = 0.01
_AUDIBLE = 1e-3
"""Level below which nothing is speech: 60 dB under full scale."""
_BELOW_SPEECH, _LOUD_NOISE, _ABOVE_NOISE = 0.01, 0.1, 2.0
"""Speech is at most 40 dB softer than the loud parts, and 6 dB louder than the noise. That is taken to be at
least 20 dB below the loud parts: in a recording without silence, there is none to measure."""


def speech_span(audio: npt.NDArray[np.float32], sample_rate_hz: int) -> tuple[int, int]:
    """First sample of the speech in audio [N], and the one after its last; (0, 0) where there is none."""
    size = round(_WINDOW_S * sample_rate_hz)
    windows = audio[: len(audio) // size * size].reshape(-1, size)
    levels = np.sqrt(np.square(windows, dtype=np.float64).mean(axis=1))
    if len(levels) < 3 or (loud := float(np.percentile(levels, 95))) < _AUDIBLE:
        return 0, 0
    noise = _ABOVE_NOISE * float(np.percentile(levels, 5))
    threshold = max(_BELOW_SPEECH * loud, min(noise, _LOUD_NOISE * loud), _AUDIBLE)
    # A click is loud for one window; speech is for two of any three neighbours.
    around = np.lib.stride_tricks.sliding_window_view(np.pad(levels, 1), 3)
    spoken = np.flatnonzero(np.median(around, axis=1) >= threshold)
    return (int(spoken[0]) * size, (int(spoken[-1]) + 1) * size) if len(spoken) else (0, 0)


def with_corpus_edges(
    audio: npt.NDArray[np.float32], span: tuple[int, int], sample_rate_hz: int
) -> npt.NDArray[np.float32]:
    """The speech of a recording with the corpus's silence around it, added where the recording has less."""
    before, after = (round(seconds * sample_rate_hz) for seconds in (BEFORE_S, AFTER_S))
    first, beyond = span[0] - before, span[1] + after
    kept = audio[max(first, 0) : beyond]
    return np.pad(kept, (max(-first, 0), max(beyond - len(audio), 0)))
