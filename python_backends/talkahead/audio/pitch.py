"""Pitch as codes tell it: levels on a logarithmic scale, and the phase that adds up from frame to frame.

The pitch of a frame holds at its first subframe's end; between two frames it moves in a straight line. Phase
is counted in units of 2**-32 of a period, as integers: wherever an utterance is cut into windows, it is the
same to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

PERIOD = 1 << 32
"""Units of phase in one period of the voice."""
UNVOICED = 0
UNVOICED_HZ = 120.0
"""Between two unvoiced frames nothing sounds with a pitch; phase runs on all the same."""

Levels = npt.NDArray[np.int64]
"""0 is unvoiced, 1 the lowest pitch."""


@dataclass(frozen=True)
class PitchScale:
    """`count` pitches from `lowest_hz` to `highest_hz`, equally far apart to the ear."""

    lowest_hz: float
    highest_hz: float
    count: int

    def levels_hz(self) -> npt.NDArray[np.float64]:
        """Frequency of each level [count + 1]; 0 where it is unvoiced."""
        return np.concatenate([[0.0], np.geomspace(self.lowest_hz, self.highest_hz, self.count)])

    def levels(self, frequencies_hz: npt.NDArray[np.float64]) -> Levels:
        """The nearest level of each frequency [...]; 0 where it is 0, that is unvoiced."""
        step = np.log(self.highest_hz / self.lowest_hz) / (self.count - 1)
        above = np.log(np.maximum(frequencies_hz, 1.0) / self.lowest_hz) / step
        nearest = np.clip(np.round(above), 0, self.count - 1).astype(np.int64) + 1
        levels: Levels = np.where(frequencies_hz > 0, nearest, UNVOICED)
        return levels

    def advances(self, seconds: float) -> npt.NDArray[np.int64]:
        """Phase passed in a gap of `seconds` between two frames, by their levels [count + 1, count + 1]."""
        hertz = torch.from_numpy(self.levels_hz())
        begin, end = gap(hertz[:, None], hertz)
        return torch.round((begin + end) / 2 * seconds * PERIOD).long().numpy()


def gap(one_hz: Tensor, other_hz: Tensor) -> tuple[Tensor, Tensor]:
    """Frequency at the beginning and the end of the gap between two frames, of pitches in Hz (0: unvoiced).

    Beside an unvoiced frame, a voiced one keeps its pitch.
    """
    begin = torch.where(one_hz > 0, one_hz, torch.where(other_hz > 0, other_hz, UNVOICED_HZ))
    end = torch.where(other_hz > 0, other_hz, begin)
    return begin, end


def _none() -> Levels:
    return np.zeros(0, np.int64)


@dataclass(frozen=True)
class PhaseCounter:
    """Adds up the phase over an utterance's codes. Without tables, nothing has a pitch and it stays 0.

    Args:
        pitch_of_codes: level of pitch of every code [V].
        advances: of the scale, for one frame [levels, levels].
    """

    pitch_of_codes: Levels = field(default_factory=_none)
    advances: npt.NDArray[np.int64] = field(default_factory=lambda: _none().reshape(0, 0))

    def passed(self, codes: npt.NDArray[np.integer[Any]]) -> int:
        """Units from the first frame to the last of codes [N]."""
        if not len(self.pitch_of_codes):
            return 0
        levels = self.pitch_of_codes[codes]
        return int(self.advances[levels[:-1], levels[1:]].sum())
