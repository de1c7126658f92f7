"""A recording that the server is to speak like."""

from __future__ import annotations

import wave
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt

from talkahead_client.errors import InvalidRequest


@dataclass(frozen=True, eq=False)
class Reference:
    """A voice by example: some seconds of speech, and what is said in them.

    Args:
        audio: mono samples in -1..1 at the server's rate (`Client.sample_rate_hz`), [samples].
        text: its transcript.

    Raises:
        InvalidRequest: the audio has another shape.
    """

    audio: npt.NDArray[np.float32]
    text: str

    def __post_init__(self) -> None:
        if self.audio.ndim != 1:
            raise InvalidRequest(
                f"reference: audio of shape {self.audio.shape} is not accepted; allowed: [samples], mono"
            )

    @classmethod
    def from_wav(cls, path: Path, text: str, rate_hz: int) -> Self:
        """Reads a WAV file as it is: what is not mono, 16 bits and at the right rate is not converted.

        Args:
            rate_hz: the server's (`Client.sample_rate_hz`).

        Raises:
            InvalidRequest: the file is in another form.
            OSError: it cannot be read.
        """
        allowed = f"mono, 16 bits, {rate_hz:,} Hz"
        try:
            with wave.open(str(path)) as file:
                form = (file.getnchannels(), file.getsampwidth(), file.getframerate())
                samples = file.readframes(file.getnframes())
        except (wave.Error, EOFError) as error:
            raise InvalidRequest(f"{path}: {error}; allowed: a WAV file, {allowed}") from error
        if form != (1, 2, rate_hz):
            channels, width, rate = form
            raise InvalidRequest(
                f"{path}: {channels} channels, {8 * width} bits, {rate:,} Hz; allowed: {allowed}"
            )
        return cls(np.frombuffer(samples, "<i2").astype(np.float32) / 32_768, text)
