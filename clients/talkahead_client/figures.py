"""What an utterance felt like to its listener: the clock of somebody who plays each chunk as it arrives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from talkahead_client.reception import AudioChunk

AUDIBLE = 0.01
"""Amplitude from which a sample counts as audible: 40 dB below full scale."""


@dataclass(frozen=True)
class Figures:
    """Times in milliseconds are counted from the request; audio in seconds."""

    first_chunk_ms: float
    first_audible_ms: float | None
    """When a listener hears the first sample of at least `AUDIBLE`; None = silence throughout."""
    total_ms: float
    """Until the last chunk."""
    audio_s: float
    real_time_factor: float
    """Time until the last chunk over the audio's length."""
    chunks: int
    dry_chunks: int
    """Chunks that arrived after everything before them had been played out."""
    dry_ms: float
    """Silence that those left in the middle of the speech, summed up."""

    def __str__(self) -> str:
        audible = "none" if self.first_audible_ms is None else f"{self.first_audible_ms:.1f} ms"
        return (
            f"first chunk {self.first_chunk_ms:.1f} ms, first audible sample {audible}, "
            f"total {self.total_ms:.0f} ms, audio {self.audio_s:.2f} s, "
            f"real-time factor {self.real_time_factor:.3f}, {self.chunks} chunks"
        )


class Listener:
    """Plays chunks in thought: each starts when it has arrived and the one before it has been played."""

    def __init__(self) -> None:
        self._num_chunks = 0
        self._first_s = 0.0
        self._latest_s = 0.0
        self._audible_s: float | None = None
        self._audio_s = 0.0
        self._played_out_s = 0.0
        self._dry_chunks = 0
        self._dry_s = 0.0

    @property
    def audio_s(self) -> float:
        return self._audio_s

    @property
    def played_out_s(self) -> float:
        """When the audio so far has been played, in seconds since the request."""
        return self._played_out_s

    def hear(self, chunk: AudioChunk) -> None:
        if self._num_chunks == 0:
            self._first_s = self._played_out_s = chunk.elapsed_s
        elif chunk.elapsed_s > self._played_out_s:
            self._dry_chunks += 1
            self._dry_s += chunk.elapsed_s - self._played_out_s
        starts_s = max(self._played_out_s, chunk.elapsed_s)
        if self._audible_s is None:
            offset = first_audible(chunk.audio)
            self._audible_s = None if offset is None else starts_s + offset / chunk.sample_rate_hz
        self._num_chunks += 1
        self._latest_s = chunk.elapsed_s
        self._audio_s += chunk.duration_s
        self._played_out_s = starts_s + chunk.duration_s

    def figures(self) -> Figures:
        """Of what was heard so far; at least one chunk must have been."""
        assert self._num_chunks, "nothing was heard"
        return Figures(
            first_chunk_ms=1e3 * self._first_s,
            first_audible_ms=None if self._audible_s is None else 1e3 * self._audible_s,
            total_ms=1e3 * self._latest_s,
            audio_s=self._audio_s,
            real_time_factor=self._latest_s / self._audio_s,
            chunks=self._num_chunks,
            dry_chunks=self._dry_chunks,
            dry_ms=1e3 * self._dry_s,
        )


def first_audible(audio: npt.NDArray[np.float32]) -> int | None:
    """Index of the first sample of at least `AUDIBLE`."""
    loud = np.abs(audio) >= AUDIBLE
    return int(np.argmax(loud)) if loud.any() else None
