"""Silences are as long as they were made."""

from __future__ import annotations

import numpy as np
import pytest
from signals import silence, vowel

from instruments.measures.silence import longest_silence_s, onset_ms


def test_onset_is_the_silence_before_speech() -> None:
    assert onset_ms(np.concatenate([silence(0.05), vowel(100)])) == pytest.approx(50, abs=1)
    assert onset_ms(silence(1.0)) is None


def test_longest_silence_between_two_places() -> None:
    sound = np.concatenate([vowel(100), silence(0.1), vowel(100), silence(0.4), vowel(100)])
    assert longest_silence_s(sound, 0, len(sound)) == pytest.approx(0.4, abs=0.01)
    assert longest_silence_s(sound, 8_000, 24_000) == pytest.approx(0.1, abs=0.01)
    assert longest_silence_s(sound, 20_000, 30_000) == 0.0
    assert longest_silence_s(sound, 39_000, 42_000) == pytest.approx(0.4, abs=0.01)  # in part
