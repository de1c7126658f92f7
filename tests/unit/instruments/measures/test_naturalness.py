"""Noise is judged worse than speech, at any rate and length, as the published code judges it."""

from __future__ import annotations

import numpy as np
import pytest
from taught import CLEAR, noisy, said

from instruments.measures.naturalness import OpinionScorer
from instruments.recording import Recording


@pytest.fixture(scope="module")
def scorer() -> OpinionScorer:
    return OpinionScorer()


def test_noise_is_judged_worse(scorer: OpinionScorer) -> None:
    recording = said(CLEAR)
    clear, spoilt = scorer.p808(recording), scorer.p808(noisy(recording, 0.5))
    assert 3.8 < clear < 4.5 and spoilt < clear - 0.5


def test_another_rate_is_judged_alike(scorer: OpinionScorer) -> None:
    recording = said(CLEAR)
    faster = Recording(recording.at(48_000), 48_000)
    assert scorer.p808(faster) == pytest.approx(scorer.p808(recording), abs=0.1)


def test_the_score_is_that_of_the_published_code(scorer: OpinionScorer) -> None:
    """Of ten harmonics under noise: speechmos 0.0.1.1 with librosa 0.11.0."""
    times = np.arange(12 * 16_000) / 16_000
    tones = sum(np.sin(2 * np.pi * 120 * order * times) / order for order in range(1, 11))
    noise = np.random.default_rng(0).normal(0, 0.02, len(times))
    recording = Recording((0.2 * tones + noise).astype(np.float32), 16_000)
    assert scorer.p808(recording) == pytest.approx(2.1775, abs=1e-3)


def test_nothing_has_no_score(scorer: OpinionScorer) -> None:
    with pytest.raises(ValueError, match="without samples"):
        scorer.p808(Recording(np.zeros(0, dtype=np.float32), 16_000))
