"""Clicks where pieces of audio meet: a jump shows in the second difference, beside its own surroundings."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from instruments.recording import Recording

_NEAR_S = 0.002
_AROUND_S = 0.03
"""On either side: 2 ms are judged by the 30 ms around them, which are as loud."""
_FLOOR = (1.0 / 32768.0) ** 2
"""One step of 16 bits, so that digital silence has a level."""


def sharpness_db(recording: Recording, places: Iterable[int]) -> npt.NDArray[np.float64]:
    """Energy of the second difference close to each place over that around it, in decibels [places].

    A place is the index of a first sample after a join; places within 30 ms of an end are left out.
    """
    near_by, farther = (round(seconds * recording.rate_hz) for seconds in (_NEAR_S, _AROUND_S))
    energy = np.diff(recording.samples.astype(np.float64), 2, prepend=0.0, append=0.0) ** 2
    total = np.concatenate([[0.0], np.cumsum(energy)])
    at = np.array([place for place in places if farther <= place <= len(energy) - farther], dtype=np.int64)
    near = total[at + near_by] - total[at - near_by]
    around = total[at + farther] - total[at - farther] - near
    levels = (near / (2 * near_by) + _FLOOR) / (around / (2 * (farther - near_by)) + _FLOOR)
    sharpness: npt.NDArray[np.float64] = 10.0 * np.log10(levels)
    return sharpness
