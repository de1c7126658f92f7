"""Where in one recording something is said that another says at some time: dynamic time warping.

Shapes: N and M frames of the recordings, B mel bands.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from instruments.measures.mel import mel_spectrogram
from instruments.recording import Recording

_RATE_HZ, _SIZE, _HOP, _MELS = 16_000, 400, 160, 40
_QUIET = 1e-4
"""Of the loudest band's power: what is quieter is silence alike."""

Floats = npt.NDArray[np.float64]


class TimeWarp:
    """The cheapest way through two recordings side by side, in steps of 10 ms."""

    def __init__(self, first: Recording, second: Recording) -> None:
        path = np.array(
            list(_path(_distances(_features(first), _features(second))))
        )  # [steps, 2], from the end
        self._first, self._second = path[::-1].T

    def to_second(self, time_s: float) -> float:
        """When the second recording says what the first says at a time: in the middle of what matches."""
        frame = min(round(time_s * _RATE_HZ / _HOP), self._first[-1])
        matching = self._second[self._first == frame]
        return float((matching[0] + matching[-1]) / 2 * _HOP / _RATE_HZ)


def _features(recording: Recording) -> Floats:
    """Log mel bands [N, B], each of zero mean and one deviation: loudness and timbre do not count."""
    mels = mel_spectrogram(recording.at(_RATE_HZ), _SIZE, _HOP, _MELS).astype(np.float64)
    logs = np.log(mels + _QUIET * mels.max())
    normal: Floats = (logs - logs.mean(0)) / logs.std(0)
    return normal


def _distances(first: Floats, second: Floats) -> Floats:
    """Euclidean, [N, M]."""
    squares = (first**2).sum(1)[:, None] + (second**2).sum(1) - 2 * first @ second.T
    distances: Floats = np.sqrt(np.maximum(squares, 0.0))
    return distances


def _path(distances: Floats) -> Iterator[tuple[int, int]]:
    """Pairs of frames from the last to the first."""
    totals = _totals(distances)
    place = distances.shape
    while all(place):
        row, column = place
        yield row - 1, column - 1
        before = ((row - 1, column - 1), (row - 1, column), (row, column - 1))
        place = min(before, key=lambda one: totals[one])


def _totals(distances: Floats) -> Floats:
    """Of the cheapest way to each pair of frames, [N + 1, M + 1]; a diagonal depends on the two before it."""
    rows, columns = distances.shape
    totals = np.full((rows + 1, columns + 1), np.inf)
    totals[0, 0] = 0.0
    for diagonal in range(rows + columns - 1):
        i = np.arange(max(0, diagonal - columns + 1), min(rows, diagonal + 1))
        j = diagonal - i
        before = np.minimum(np.minimum(totals[i, j + 1], totals[i + 1, j]), totals[i, j])
        totals[i + 1, j + 1] = distances[i, j] + before
    return totals
