"""Whose voice it is: how far speech is from the same words in each of several voices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from instruments.measures.frames import Audio
from instruments.measures.mel_cepstrum import mean_distance_db, mel_cepstra, warping


@dataclass(frozen=True)
class Likeness:
    """Mel-cepstral distances to each voice, in decibels: along the warping, and of averages over time."""

    warped_db: Mapping[str, float]
    averaged_db: Mapping[str, float]

    @property
    def nearest_warped(self) -> str:
        return min(self.warped_db, key=self.warped_db.__getitem__)

    @property
    def nearest_averaged(self) -> str:
        return min(self.averaged_db, key=self.averaged_db.__getitem__)


def likeness(audio: Audio, voices: Mapping[str, Audio]) -> Likeness:
    """Of `audio` to the same words as each voice speaks them."""
    cepstra = mel_cepstra(audio)
    warped, averaged = {}, {}
    for name, spoken in voices.items():
        wanted = mel_cepstra(spoken)
        here, there = warping(cepstra, wanted)
        warped[name] = mean_distance_db(cepstra[here], wanted[there])
        averaged[name] = float(np.linalg.norm(cepstra.mean(0) - wanted.mean(0)))
    return Likeness(warped, averaged)
