"""When a listener will have heard what was sent, and the pauses that they hear between clauses."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
from talkahead_client import AudioChunk

from talkahead_gateway.clause_cutter import pause_after_s


class Playback:
    """One listener's, who plays what arrives at once. Moments are in seconds of one clock."""

    def __init__(self) -> None:
        self._played_out_s: float | None = None
        self._pause_s = 0.0
        self.sent_s = 0.0
        """Speech, and silence between clauses."""

    @property
    def has_begun(self) -> bool:
        return self._played_out_s is not None

    @property
    def now_s(self) -> float:
        return time.monotonic()

    @property
    def left_s(self) -> float:
        """What was sent and has not been heard."""
        return 0.0 if self._played_out_s is None else max(0.0, self._played_out_s - self.now_s)

    @property
    def heard_s(self) -> float:
        """What was sent and has been heard."""
        return self.sent_s - self.left_s

    def silence_s(self) -> float:
        """Before a clause that can be heard from now on: what is missing of the pause before it."""
        if self._played_out_s is None:
            return 0.0
        return min(self._pause_s, max(0.0, self._played_out_s + self._pause_s - self.now_s))

    def play(self, duration_s: float) -> float:
        """More has been sent; returns the moment from which it is heard."""
        now_s = self.now_s
        begins_s = max(self._played_out_s or now_s, now_s)
        self._played_out_s = begins_s + duration_s
        self.sent_s += duration_s
        return begins_s

    def pause_after(self, clause: str) -> None:
        self._pause_s = pause_after_s(clause)


def after_silence(chunk: AudioChunk, silence_s: float) -> AudioChunk:
    silence = np.zeros(round(silence_s * chunk.sample_rate_hz), np.float32)
    return replace(chunk, audio=np.concatenate((silence, chunk.audio)))
