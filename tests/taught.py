"""Sentences of the teacher, spoken once, for tests of the instruments."""

from __future__ import annotations

from functools import cache

import numpy as np

from instruments.recording import Recording
from instruments.teacher import SAMPLE_RATE, Teacher

CLEAR = "she told me that the train would be late, and it was."
NUMBERS = "please call extension five four two before the end of may."


@cache
def _teacher() -> Teacher:
    return Teacher()


@cache
def said(words: str, voice: str = "rms") -> Recording:
    return Recording.of_int16(_teacher().speak(words, voice).audio, SAMPLE_RATE)


def noisy(recording: Recording, level: float) -> Recording:
    """With white noise of so many times its loudness."""
    samples = recording.samples
    noise = np.random.default_rng(0).normal(0, level * samples.std(), len(samples))
    return Recording(np.clip(samples + noise, -1, 1).astype(np.float32), recording.rate_hz)
