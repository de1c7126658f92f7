"""Encoded audio as samples again, by FFmpeg."""

from __future__ import annotations

import io

import av
import numpy as np
import numpy.typing as npt

_RAW = {"pcm": ("s16le", {"sample_rate": "24000", "ch_layout": "mono"})}
"""What has no header to say it."""


def decoded(name: str, file: bytes) -> tuple[npt.NDArray[np.float32], int]:
    """Mono samples and their rate in Hz, of a format by its name in OpenAI's interface."""
    kind, options = _RAW.get(name, (None, {}))
    with av.open(io.BytesIO(file), format=kind, options=options) as container:
        resampler = av.AudioResampler("flt", "mono")
        frames = [part for frame in container.decode(audio=0) for part in resampler.resample(frame)]
    return np.concatenate([frame.to_ndarray()[0] for frame in frames]), frames[0].sample_rate
