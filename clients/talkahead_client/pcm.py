"""Chunks to 16-bit PCM, into a WAV file or a pipe, while they arrive."""

from __future__ import annotations

import wave
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Protocol, Self

import numpy as np
import numpy.typing as npt

from talkahead_client.reception import AudioChunk


class Sink(Protocol):
    """Takes the chunks of one utterance."""

    def write(self, chunk: AudioChunk) -> None: ...
    def close(self) -> None: ...


class WavFile:
    """A WAV file, made when the first chunk comes; no chunk, no file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._wav: wave.Wave_write | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def write(self, chunk: AudioChunk) -> None:
        if self._wav is None:
            # Opened here, because `wave` complains once more about a file that it could not open.
            self._file = self._path.open("wb")
            self._wav = wave.Wave_write(self._file)
            self._wav.setnchannels(1)
            self._wav.setsampwidth(2)
            self._wav.setframerate(chunk.sample_rate_hz)
        self._wav.writeframes(to_s16le(chunk.audio))

    def close(self) -> None:
        for file in (self._wav, self._file):
            if file is not None:
                file.close()


class RawPipe:
    """Raw samples to a stream that belongs to somebody else, each chunk flushed for the player after it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def write(self, chunk: AudioChunk) -> None:
        self._stream.write(to_s16le(chunk.audio))
        self._stream.flush()

    def close(self) -> None:
        return


def to_s16le(audio: npt.NDArray[np.float32]) -> bytes:
    """Samples in -1..1 to signed 16 bits, little-endian; beyond that range they are clipped."""
    samples: npt.NDArray[np.int16] = np.round(np.clip(audio, -1.0, 1.0) * 32767.0).astype("<i2")
    return samples.tobytes()
