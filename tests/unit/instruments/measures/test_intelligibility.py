"""A copy keeps all of itself, and less the more noise is on it."""

from __future__ import annotations

import numpy as np
import pytest
from taught import CLEAR, noisy, said

from instruments.measures.intelligibility import short_time_intelligibility
from instruments.recording import Recording


def test_noise_takes_from_it() -> None:
    original = said(CLEAR)
    assert short_time_intelligibility(original, original) == pytest.approx(1)
    little, much = (short_time_intelligibility(original, noisy(original, level)) for level in (0.3, 5.0))
    assert little is not None and much is not None and 1 > little > 0.8 > 0.6 > much


def test_another_rate_and_a_missing_end_do_not_matter() -> None:
    original = said(CLEAR)
    copy = Recording(original.at(48_000)[:-960], 48_000)
    assert short_time_intelligibility(original, copy) == pytest.approx(1, abs=0.01)


def test_what_is_too_short_cannot_be_told() -> None:
    short = Recording(np.random.default_rng(0).normal(0, 0.1, 1_600).astype(np.float32), 16_000)
    assert short_time_intelligibility(short, short) is None
