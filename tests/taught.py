"""Sentences of the teacher, spoken once, for tests of the instruments."""

from __future__ import annotations

from functools import cache

import numpy as np
from talkahead.text import TextFrontend
from talkahead.text.frontend import TextSegment

from instruments.neural_teacher import SAMPLE_RATE, NeuralTeacher
from instruments.recording import Recording

CLEAR = "she told me that the train would be late, and it was."
NUMBERS = "please call extension five four two before the end of may."
VOICE = "heart"
"""The teacher's own."""
_PLAYED = {VOICE: 1.0, "deep": 0.7, "high": 1.4}
VOICES = tuple(_PLAYED)


@cache
def _teacher() -> NeuralTeacher:
    return NeuralTeacher()


def segment_said(segment: TextSegment) -> Recording:
    speech = _teacher().speak(segment.spoken)
    return Recording(_teacher().render(speech.hidden, speech.hertz), SAMPLE_RATE)


@cache
def said(words: str, voice: str = VOICE) -> Recording:
    """Words of one segment. The teacher has one voice alone: the others are its speech played slower, as a
    larger speaker's, or faster, as a smaller one's."""
    (segment,) = TextFrontend().segments(words)
    return Recording(segment_said(segment).samples, round(_PLAYED[voice] * SAMPLE_RATE))


def noisy(recording: Recording, level: float) -> Recording:
    """With white noise of so many times its loudness."""
    samples = recording.samples
    noise = np.random.default_rng(0).normal(0, level * samples.std(), len(samples))
    return Recording(np.clip(samples + noise, -1, 1).astype(np.float32), recording.rate_hz)
