"""A recording in any usual format, as samples."""

from __future__ import annotations

import io

import numpy as np
import numpy.typing as npt
from av import FFmpegError
from av import open as open_container
from av.audio.resampler import AudioResampler

from talkahead_gateway.refusal import Refusal

MAX_S = 60.0
"""Few bytes can be hours of silence; what a server takes is far shorter, and it says so itself."""
FIELD = "audio_sample"
_ALLOWED = "speech as wav, flac, mp3, ogg, aac, mp4 or webm"
_ONLY = {"format_whitelist": "wav,flac,mp3,ogg,aac,mov,matroska", "protocol_whitelist": ""}
"""FFmpeg knows formats that name other files, and would open them."""


def read_recording(data: bytes, rate_hz: int) -> npt.NDArray[np.float32]:
    """Mono samples in -1..1 at a rate, [samples]; raises Refusal for what is none."""
    try:
        return _decode(data, rate_hz)
    except (FFmpegError, IndexError, ValueError) as error:
        raise Refusal(
            400, f"{FIELD}: it cannot be read ({error}); allowed: {_ALLOWED}", param=FIELD
        ) from None


def _decode(data: bytes, rate_hz: int) -> npt.NDArray[np.float32]:
    parts: list[npt.NDArray[np.float32]] = []
    num_samples = 0
    with open_container(io.BytesIO(data), "r", options=_ONLY) as container:
        # FFmpeg's own way to one channel is 3 dB louder, and may be over 1.
        resampler = AudioResampler("fltp", rate=rate_hz)
        frames = container.decode(container.streams.audio[0])
        for frame in (*frames, None):
            for converted in resampler.resample(frame):
                parts.append(converted.to_ndarray().mean(axis=0))
                num_samples += len(parts[-1])
            if num_samples > MAX_S * rate_hz:
                raise Refusal(400, f"{FIELD}: it is over {MAX_S:g} s long", param=FIELD)
    return np.concatenate(parts) if parts else np.zeros(0, np.float32)
