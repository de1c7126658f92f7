"""A recording is the same sound at every rate."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import pytest

from instruments.recording import Recording


def tone(rate_hz: int, seconds: float = 0.5, loudness: float = 0.5) -> Recording:
    times = np.arange(round(seconds * rate_hz)) / rate_hz
    return Recording((loudness * np.sin(2 * np.pi * 440 * times)).astype(np.float32), rate_hz)


@pytest.mark.parametrize("rate_hz", [22_050, 24_000, 48_000])
def test_another_rate_is_the_same_tone(rate_hz: int) -> None:
    found, wanted = tone(rate_hz).at(16_000), tone(16_000).samples
    assert len(found) == len(wanted) and found.dtype == np.float32
    assert np.abs(found - wanted)[200:-200].max() < 2e-3
    assert tone(rate_hz).seconds == pytest.approx(0.5)


def test_the_same_rate_is_the_same_samples() -> None:
    recording = tone(16_000)
    assert recording.at(16_000) is recording.samples


def test_what_rings_over_is_clipped() -> None:
    square = Recording(np.sign(tone(24_000).samples), 24_000)
    assert np.abs(square.at(16_000)).max() == 1


def test_written_and_read_again(tmp_path: Path) -> None:
    path = tmp_path / "one.wav"
    Recording(np.array([0, 0.5, -2.0], np.float32), 24_000).write(path)
    with wave.open(str(path)) as file:
        assert np.frombuffer(file.readframes(3), "<i2").tolist() == [0, 16_384, -32_767]
    found = Recording.read(path)
    assert found.rate_hz == 24_000 and found.samples == pytest.approx([0, 0.5, -1], abs=1e-4)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(24_000)
    with pytest.raises(ValueError, match=r"2 channels of 16 bits, allowed: 1 of 16"):
        Recording.read(path)
