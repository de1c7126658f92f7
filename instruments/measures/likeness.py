"""Whose voice speech is like: how near its speaker is to that of each of several voices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from instruments.measures.speaker import SpeakerEncoder
from instruments.recording import Recording


@dataclass(frozen=True)
class Likeness:
    """Cosine of its embedding to each voice's."""

    cosines: Mapping[str, float]

    @property
    def nearest(self) -> str:
        return max(self.cosines, key=self.cosines.__getitem__)


def likeness(encoder: SpeakerEncoder, recording: Recording, voices: Mapping[str, Recording]) -> Likeness:
    """Of a recording to the same words as each voice speaks them."""
    own = encoder.embed(recording)
    return Likeness({name: float(own @ encoder.embed(spoken)) for name, spoken in voices.items()})
