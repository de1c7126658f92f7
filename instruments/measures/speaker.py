"""Whose voice it is: Resemblyzer's embedding of a speaker (Wan et al. 2018).

Its weights come with the package `resemblyzer`; the network is run from here, because the package wants a
detector of voices that has to be compiled. So pauses within speech are not cut out.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import distribution

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from instruments.measures.mel import mel_spectrogram
from instruments.recording import Recording, Samples

RATE_HZ = 16_000
_SIZE, _HOP, _NUM_MELS = 400, 160, 40
_WIDTH, _LAYERS = 256, 3
_WINDOW, _STEP = 160, 77
"""Mel frames of a part, and from one part to the next."""
_LEAST_COVERED = 0.75
"""Of the last part; with less it is left out, unless it is the only one."""
_LEVEL = 10 ** (-30 / 20)
"""Root mean square that quiet recordings are raised to."""

Embedding = npt.NDArray[np.float64]


class SpeakerEncoder(nn.Module):
    """Embeds recordings."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(_NUM_MELS, _WIDTH, _LAYERS, batch_first=True)
        self.linear = nn.Linear(_WIDTH, _WIDTH)
        path = distribution("resemblyzer").locate_file("resemblyzer/pretrained.pt")
        state = torch.load(str(path), map_location="cpu", weights_only=True)["model_state"]
        self.load_state_dict({name: state[name] for name in self.state_dict()})

    def forward(self, mels: Tensor) -> Tensor:
        """[parts, _WINDOW, _NUM_MELS] to unit vectors [parts, 256]."""
        _, (hidden, _) = self.lstm(mels)
        return functional.normalize(self.linear(hidden[-1]).relu(), dim=1)

    def embed(self, recording: Recording) -> Embedding:
        """A unit vector [256]: the mean over parts of 1.6 s."""
        with torch.inference_mode():
            parts = self(torch.from_numpy(_parts(recording.at(RATE_HZ))))
        return _unit(parts.numpy().mean(0, dtype=np.float64))


def mean_speaker(embeddings: Sequence[Embedding]) -> Embedding:
    """The speaker of several utterances, as a unit vector: its product with another is the cosine."""
    return _unit(np.mean(embeddings, axis=0))


def _parts(samples: Samples) -> npt.NDArray[np.float32]:
    count = len(samples)
    if not count:
        raise ValueError("a recording without samples has no speaker")
    starts = list(range(0, max(1, count // _HOP + 1 - _WINDOW + _STEP + 1), _STEP))
    if len(starts) > 1 and count - starts[-1] * _HOP < _LEAST_COVERED * _WINDOW * _HOP:
        starts.pop()
    level = float(np.sqrt(np.mean(samples**2)))
    louder = samples * max(1.0, _LEVEL / level) if level else samples
    padded = np.pad(louder, (0, max(0, (starts[-1] + _WINDOW) * _HOP - count)))
    mels = mel_spectrogram(padded, _SIZE, _HOP, _NUM_MELS)
    return np.stack([mels[start : start + _WINDOW] for start in starts])


def _unit(vector: Embedding) -> Embedding:
    unit: Embedding = vector / np.linalg.norm(vector)
    return unit
