"""WAV files of any rate, width and number of channels become what a codec hears."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import pytest
from talkahead.audio.recording import read_wav
from talkahead.errors import BadRequest

SECONDS, PITCH_HZ = 0.5, 440.0


def sine(rate_hz: int) -> np.ndarray:
    return 0.4 * np.sin(2 * np.pi * PITCH_HZ * np.arange(int(SECONDS * rate_hz)) / rate_hz)


def write(path: Path, channels: list[np.ndarray], rate_hz: int, width: int) -> Path:
    whole = np.stack(channels, axis=1) * (1 << (8 * width - 1))
    raw = whole.round().astype("<i4").reshape(-1, 1).view(np.uint8)[:, :width]
    with wave.open(str(path), "wb") as file:
        file.setnchannels(len(channels))
        file.setsampwidth(width)
        file.setframerate(rate_hz)
        file.writeframes(raw.tobytes())
    return path


@pytest.mark.parametrize("width", [2, 3, 4])
@pytest.mark.parametrize("rate_hz", [16_000, 22_050, 44_100, 8_000])
def test_any_width_and_rate(width: int, rate_hz: int, tmp_path: Path) -> None:
    audio = read_wav(write(tmp_path / "one.wav", [sine(rate_hz)], rate_hz, width), 16_000)
    assert audio.dtype == np.float32 and len(audio) == SECONDS * 16_000
    inner = slice(400, -400)  # where the file is not thought to go on from its end at its beginning
    np.testing.assert_allclose(audio[inner], sine(16_000)[inner], atol=2e-3)


def test_channels_become_their_mean(tmp_path: Path) -> None:
    path = write(tmp_path / "two.wav", [sine(16_000), -0.5 * sine(16_000)], 16_000, 2)
    np.testing.assert_allclose(read_wav(path, 16_000), 0.25 * sine(16_000), atol=1e-4)


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.wav").write_text("no sound")
    for path in (tmp_path / "none.wav", tmp_path / "text.wav"):
        with pytest.raises(BadRequest, match="allowed: a WAV file of 16, 24 or 32 bits"):
            read_wav(path, 16_000)
    eight = write(tmp_path / "eight.wav", [sine(8_000)], 8_000, 1)
    with pytest.raises(BadRequest, match="8 bits"):
        read_wav(eight, 16_000)
    long = write(tmp_path / "long.wav", [np.zeros(121 * 1_000)], 1_000, 2)
    with pytest.raises(BadRequest, match=r"121 s.*allowed: up to 120 s"):
        read_wav(long, 16_000)
