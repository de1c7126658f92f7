"""NeuCodec: XCodec2 that hears 16 kHz and speaks 24 kHz."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from talkahead.families.contracts import Samples
from talkahead.families.fsq_codec import FsqCodec, semantic_features


class NeuCodec(FsqCodec):
    """Codec of the family `neutts`."""

    family = "neutts"
    model_name = "NeuCodecModel"

    @property
    def sample_rate_hz(self) -> int:
        return int(self.config.output_sampling_rate)

    @property
    def encoder_hop(self) -> int:
        return int(self.config.encoder_hop_length)

    def _heard(self, audio: Samples) -> tuple[Samples, Tensor]:
        count = len(audio) // self.hop * self.encoder_hop
        padded = np.pad(_resampled(audio, count), (0, self.encoder_hop))
        return padded, semantic_features(padded)


convert_weights, load_codec = NeuCodec.convert, NeuCodec.load


def _resampled(audio: Samples, count: int) -> Samples:
    """As `count` samples, fewer than there are: what both rates can hold is kept, and nothing else."""
    spectrum = np.fft.rfft(audio)[: count // 2 + 1]
    return (np.fft.irfft(spectrum, count) * (count / len(audio))).astype(np.float32)
