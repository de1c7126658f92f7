"""Mel spectrograms as librosa makes them, which networks for speech are trained on."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from faster_whisper.feature_extractor import FeatureExtractor

from instruments.recording import Samples

_RATE_HZ = 16_000


def mel_spectrogram(samples: Samples, size: int, hop: int, num_mels: int) -> npt.NDArray[np.float32]:
    """Power in Slaney's mel bands of 16 kHz samples [T, num_mels], T = 1 + len(samples) // hop."""
    padded = np.pad(samples, size // 2)
    frames = np.lib.stride_tricks.sliding_window_view(padded, size)[::hop]
    window = np.hanning(size + 1)[:-1]
    power = np.abs(np.fft.rfft(frames * window)) ** 2
    bands = FeatureExtractor.get_mel_filters(_RATE_HZ, size, num_mels)
    mels: npt.NDArray[np.float32] = (power @ bands.T).astype(np.float32)
    return mels
