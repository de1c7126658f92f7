"""Speech is found between silence and noise, and gets the corpus's edges."""

from __future__ import annotations

import numpy as np
import pytest
from talkahead.audio.speech_edges import speech_span, with_corpus_edges

RATE_HZ = 16_000
WINDOW = 160
RNG = np.random.default_rng(0)
Audio = np.ndarray


def recording(before_s: float, speech_s: float, after_s: float, noise: float = 0.0) -> Audio:
    """Loud noise as speech, within silence or softer noise."""
    parts = [(before_s, noise), (speech_s, 0.2), (after_s, noise)]
    audio = [level * RNG.standard_normal(round(seconds * RATE_HZ)) for seconds, level in parts]
    return np.concatenate(audio).astype(np.float32)


@pytest.mark.parametrize("noise", [0.0, 1e-4, 5e-3])
@pytest.mark.parametrize(("before_s", "after_s"), [(0.5, 0.3), (0.0, 0.8), (0.04, 0.0)])
def test_the_span_of_speech(noise: float, before_s: float, after_s: float) -> None:
    first, beyond = speech_span(recording(before_s, 1.5, after_s, noise), RATE_HZ)
    assert abs(first - before_s * RATE_HZ) <= WINDOW
    assert abs(beyond - (before_s + 1.5) * RATE_HZ) <= WINDOW


def test_soft_beginnings_belong_to_speech() -> None:
    audio = np.concatenate([recording(0.3, 0.2, 0.0) * 0.05, recording(0.0, 1.0, 0.3)])
    assert abs(speech_span(audio, RATE_HZ)[0] - 0.3 * RATE_HZ) <= WINDOW


def test_a_click_is_no_speech() -> None:
    audio = recording(0.5, 1.0, 0.5)
    audio[[800, 30_000]] = 0.9
    first, beyond = speech_span(audio, RATE_HZ)
    assert abs(first - 8_000) <= WINDOW and abs(beyond - 24_000) <= WINDOW


@pytest.mark.parametrize("samples", [0, 100, 480, 16_000])
def test_silence_has_no_speech(samples: int) -> None:
    assert speech_span(np.zeros(samples, np.float32), RATE_HZ) == (0, 0)
    assert speech_span(np.full(samples, 5e-4, np.float32), RATE_HZ) == (0, 0)


def test_edges_are_cut_or_added() -> None:
    audio = recording(0.5, 1.0, 0.5)
    long = with_corpus_edges(audio, (8_000, 24_000), RATE_HZ)
    np.testing.assert_array_equal(long, audio[8_000 - 160 : 24_000 + 1_600])
    short = with_corpus_edges(audio[8_000:24_000], (0, 16_000), RATE_HZ)
    np.testing.assert_array_equal(short, long)
