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
    clear, spoilt = scorer.score(recording), scorer.score(noisy(recording, 0.5))
    assert 3.8 < clear.p808 < 4.5 and 3 < clear.overall < 3.8
    assert spoilt.p808 < clear.p808 - 0.5 and spoilt.overall < clear.overall - 0.5


def test_another_rate_is_judged_alike(scorer: OpinionScorer) -> None:
    recording = said(CLEAR)
    faster = Recording(recording.at(48_000), 48_000)
    assert scorer.p808(faster) == pytest.approx(scorer.p808(recording), abs=0.1)


def test_scores_are_those_of_the_published_code(scorer: OpinionScorer) -> None:
    """Of ten harmonics under noise: speechmos 0.0.1.1 with librosa 0.11.0."""
    times = np.arange(12 * 16_000) / 16_000
    tones = sum(np.sin(2 * np.pi * 120 * order * times) / order for order in range(1, 11))
    noise = np.random.default_rng(0).normal(0, 0.02, len(times))
    recording = Recording((0.2 * tones + noise).astype(np.float32), 16_000)
    found = scorer.score(recording)
    assert found.p808 == scorer.p808(recording)
    assert (found.p808, found.overall) == pytest.approx((2.1775, 1.5075), abs=1e-3)


def test_nothing_has_no_score(scorer: OpinionScorer) -> None:
    with pytest.raises(ValueError, match="without samples"):
        scorer.score(Recording(np.zeros(0, dtype=np.float32), 16_000))
