"""A recording at whatever rate it has, and the same one at another."""

from __future__ import annotations

import wave
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt
from scipy.signal import resample_poly

Samples = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Recording:
    """Mono samples [N] in -1..1."""

    samples: Samples
    rate_hz: int

    @classmethod
    def of_int16(cls, audio: npt.NDArray[np.int16], rate_hz: int) -> Self:
        return cls((audio / 32768.0).astype(np.float32), rate_hz)

    @classmethod
    def read(cls, path: Path) -> Self:
        """A WAV file of 16 bits, mono.

        Raises:
            ValueError: it is another kind of file.
        """
        with wave.open(str(path), "rb") as file:
            found = (file.getnchannels(), 8 * file.getsampwidth())
            if found != (1, 16):
                raise ValueError(f"{path}: {found[0]} channels of {found[1]} bits, allowed: 1 of 16")
            audio = np.frombuffer(file.readframes(file.getnframes()), dtype="<i2")
            return cls.of_int16(audio, file.getframerate())

    def write(self, path: Path) -> None:
        """A WAV file of 16 bits; what is beyond -1..1 is clipped."""
        with wave.open(str(path), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(self.rate_hz)
            file.writeframes(np.round(32_767 * np.clip(self.samples, -1.0, 1.0)).astype("<i2").tobytes())

    @property
    def seconds(self) -> float:
        return len(self.samples) / self.rate_hz

    def at(self, rate_hz: int) -> Samples:
        """The samples at this rate; clipped, for a filter's ringing may leave -1..1."""
        if rate_hz == self.rate_hz:
            return self.samples
        ratio = Fraction(rate_hz, self.rate_hz)
        changed = resample_poly(self.samples, ratio.numerator, ratio.denominator)
        clipped: Samples = np.clip(changed, -1.0, 1.0).astype(np.float32)
        return clipped
