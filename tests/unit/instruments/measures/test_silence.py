"""Silences are as long as they were made."""

from __future__ import annotations

import pytest
from signals import recording, silence, tone

from instruments.measures.silence import longest_silence_s, onset_ms


def test_onset_is_the_silence_before_speech() -> None:
    assert onset_ms(recording(silence(0.05), tone())) == pytest.approx(50, abs=1)
    assert onset_ms(recording(silence(1.0))) is None


def test_longest_silence_between_two_times() -> None:
    sound = recording(tone(), silence(0.1), tone(), silence(0.4), tone())
    assert longest_silence_s(sound, 0.0, sound.seconds) == pytest.approx(0.4, abs=0.01)
    assert longest_silence_s(sound, 0.5, 1.5) == pytest.approx(0.1, abs=0.01)
    assert longest_silence_s(sound, 1.25, 1.9) == 0.0
    assert longest_silence_s(sound, 2.4, 2.6) == pytest.approx(0.4, abs=0.01)  # in part
