"""How natural speech sounds: DNSMOS (Reddy et al. 2021, 2022), opinion scores from 1 to 5 by two networks.

Their weights come with the package `speechmos`, whose own code needs librosa; so they are run from here, on
the same windows and features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

import numpy as np
import numpy.typing as npt
import onnxruntime

from instruments.measures.mel import mel_spectrogram
from instruments.recording import Recording, Samples

RATE_HZ = 16_000
_WINDOW_S = 9.01
_WINDOW = int(_WINDOW_S * RATE_HZ)
_HOP = 160
_NUM_MELS = 120
_SIZE = 321
_OVERALL = np.poly1d([-0.06766283, 1.11546468, 0.04602535])
"""From what the network says to the scale of listeners."""


@dataclass(frozen=True)
class Naturalness:
    """Mean opinion scores as listeners would give them.

    Args:
        p808: of the whole, by the procedure of ITU-T P.808.
        overall: of the whole, by P.835.
    """

    p808: float
    overall: float


class OpinionScorer:
    """The networks of one process."""

    def __init__(self, threads: int = 1) -> None:
        self._p808 = _session("model_v8.onnx", threads)
        self._p835 = _session("sig_bak_ovr.onnx", threads)

    def score(self, recording: Recording) -> Naturalness:
        """Averages over windows of nine seconds, a second apart; what is shorter is said again."""
        windows = _windows(recording)
        return Naturalness(self._mean_p808(windows), self._mean_overall(windows))

    def p808(self, recording: Recording) -> float:
        """One of the two scores, for a fifth of the time."""
        return self._mean_p808(_windows(recording))

    def _mean_p808(self, windows: Sequence[Samples]) -> float:
        found = [self._p808.run(None, {"input_1": _features(one[:-_HOP])[None]})[0].item() for one in windows]
        return float(np.mean(found))

    def _mean_overall(self, windows: Sequence[Samples]) -> float:
        # Of signal, background and whole, the last.
        found = [self._p835.run(None, {"input_1": one[None]})[0][0, 2] for one in windows]
        return float(np.mean(_OVERALL(np.array(found))))


def _session(name: str, threads: int) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = threads
    path = files("speechmos") / "dnsmos_models" / name
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def _windows(recording: Recording) -> list[Samples]:
    samples = recording.at(RATE_HZ)
    if not len(samples):
        raise ValueError("a recording without samples has no score")
    while len(samples) < _WINDOW:
        samples = np.concatenate([samples, samples])
    # As many as DNSMOS itself looks at, which leaves out a last one that would end within a second.
    count = int(len(samples) // RATE_HZ - _WINDOW_S) + 1
    return [samples[start * RATE_HZ :][:_WINDOW] for start in range(count)]


def _features(samples: Samples) -> npt.NDArray[np.float32]:
    """Decibels under the loudest band, at most 80 [T, 120]; -40 is 0, and 40 is one unit."""
    power = mel_spectrogram(samples, _SIZE, _HOP, _NUM_MELS)
    level = 10 * np.log10(np.maximum(power, 1e-10))
    level = np.maximum(level - level.max(), -80.0)
    features: npt.NDArray[np.float32] = ((level + 40) / 40).astype(np.float32)
    return features
