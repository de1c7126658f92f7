"""Encoded audio as samples again, by FFmpeg."""

from __future__ import annotations

import io

import av
import numpy as np
import numpy.typing as npt

_RAW = {"pcm": "s16le", "mulaw": "mulaw", "alaw": "alaw"}
"""FFmpeg's names of what has no header."""


def decoded(name: str, file: bytes, raw_hz: int = 24_000) -> tuple[npt.NDArray[np.float32], int]:
    """Mono samples and their rate in Hz.

    Args:
        name: of the format in OpenAI's interface, or of one for telephones.
        file: the encoded audio.
        raw_hz: its rate, where it has no header to say it.
    """
    kind = _RAW.get(name)
    options = {"sample_rate": str(raw_hz), "ch_layout": "mono"} if kind else {}
    with av.open(io.BytesIO(file), format=kind, options=options) as container:
        resampler = av.AudioResampler("flt", "mono")
        frames = [part for frame in container.decode(audio=0) for part in resampler.resample(frame)]
    return np.concatenate([frame.to_ndarray()[0] for frame in frames]), frames[0].sample_rate
