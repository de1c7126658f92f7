"""How natural speech sounds: DNSMOS (Reddy et al. 2021), an opinion score from 1 to 5 by a network.

Its weights come with the package `speechmos`, whose own code needs librosa; so it is run from here, on the
same windows and features. The package's network by ITU-T P.835 takes four fifths of all that is measured of a
recording, and is left out.
"""

from __future__ import annotations

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


class OpinionScorer:
    """The network of one process."""

    def __init__(self, threads: int = 1) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = threads
        path = files("speechmos") / "dnsmos_models" / "model_v8.onnx"
        self._network = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def p808(self, recording: Recording) -> float:
        """The mean opinion score of the whole, by the procedure of ITU-T P.808: averaged over windows of nine
        seconds, a second apart; what is shorter is said again."""
        features = (_features(one[:-_HOP]) for one in _windows(recording))
        return float(np.mean([self._network.run(None, {"input_1": one[None]})[0].item() for one in features]))


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
