"""A WAV file as samples at the rate that is wanted.

Shapes: N samples, K channels.
"""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import numpy.typing as npt

from talkahead.errors import BadRequest

_ALLOWED = "a WAV file of 16, 24 or 32 bits"
_BYTES = (2, 3, 4)
_LONGEST_S = 120.0
"""Of a file that is read at all."""


def read_wav(path: Path, rate_hz: int) -> npt.NDArray[np.float32]:
    """Mono [N] in -1..1: the mean of all channels.

    Raises:
        BadRequest: it cannot be read as one, or is far longer than any reference.
    """
    try:
        with wave.open(str(path), "rb") as file:
            width, channels, rate = file.getsampwidth(), file.getnchannels(), file.getframerate()
            if file.getnframes() > _LONGEST_S * rate:
                raise BadRequest(str(path), f"{file.getnframes() / rate:.0f} s", f"up to {_LONGEST_S:g} s")
            data = file.readframes(file.getnframes())
    except (OSError, EOFError, wave.Error) as error:
        raise BadRequest(str(path), str(error), _ALLOWED) from error
    if width not in _BYTES:
        raise BadRequest(str(path), f"{8 * width} bits", _ALLOWED)
    return resampled(_samples(data, width).reshape(-1, channels).mean(axis=1), rate, rate_hz)


def _samples(data: bytes, width: int) -> npt.NDArray[np.float64]:
    """Each value as the upper bytes of 32 bits."""
    raw = np.frombuffer(data, np.uint8).reshape(-1, width)
    whole = np.zeros((len(raw), 4), np.uint8)
    whole[:, 4 - width :] = raw
    values: npt.NDArray[np.float64] = whole.view("<i4")[:, 0] / float(1 << 31)
    return values


def resampled(audio: npt.NDArray[np.float64], rate_hz: int, wanted_hz: int) -> npt.NDArray[np.float32]:
    """At another rate: what both rates can hold is kept, and nothing else."""
    if rate_hz == wanted_hz or not len(audio):
        return audio.astype(np.float32)
    count = round(len(audio) * wanted_hz / rate_hz)
    spectrum = np.fft.rfft(audio)[: count // 2 + 1]
    return np.clip(np.fft.irfft(spectrum, count) * (count / len(audio)), -1, 1).astype(np.float32)
