"""Clicks where pieces of audio meet: a jump shows in the second difference, beside its own surroundings."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from instruments.measures.frames import Audio, Floats, full_scale

_NEAR = 32
_AROUND = 480
"""Samples on either side: 2 ms are judged by the 30 ms around them, which are as loud."""
_FLOOR = (1.0 / 32768.0) ** 2
"""One step of 16 bits, so that digital silence has a level."""


def sharpness_db(audio: Audio, places: Iterable[int]) -> Floats:
    """Energy of the second difference close to each place over that around it, in decibels [places].

    A place is the index of a first sample after a join; places within 30 ms of an end are left out.
    """
    energy = np.diff(full_scale(audio), 2, prepend=0.0, append=0.0) ** 2
    total = np.concatenate([[0.0], np.cumsum(energy)])
    at = np.array([place for place in places if _AROUND <= place <= len(audio) - _AROUND], dtype=np.int64)
    near = total[at + _NEAR] - total[at - _NEAR]
    around = total[at + _AROUND] - total[at - _AROUND] - near
    levels = (near / (2 * _NEAR) + _FLOOR) / (around / (2 * (_AROUND - _NEAR)) + _FLOOR)
    sharpness: Floats = 10.0 * np.log10(levels)
    return sharpness
