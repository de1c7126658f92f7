"""The codec of pitch and spectrum in windows: what is carried from one to the next is the voice's phase.

Shapes: B windows, W frames of the longest, N samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt
import torch

from talkahead.audio.codec import Codec, CodecConfig
from talkahead.audio.pitch import PERIOD
from talkahead.families.contracts import CodecWindow, Decoded, Frames, Samples
from talkahead.families.phonemic.frontend import NAME, SEGMENT_POSITIONS
from talkahead.speech_format import SpeechFormat


def speech_format(codec: CodecConfig, silence: int, max_positions: int) -> SpeechFormat:
    """Of a codec with a code of silence, and a talker with so many positions."""
    return SpeechFormat(
        family=NAME,
        sample_rate_hz=codec.sample_rate_hz,
        hop=codec.hop,
        codebooks=(codec.codebook_size,),
        context_frames=codec.context_frames,
        lookahead_frames=codec.lookahead_frames,
        silence=(silence,),
        max_positions=max_positions,
        segment_positions=SEGMENT_POSITIONS,
    )


class PitchCodec:
    """A `Codec`. The carry is the phase at the frame behind the window's new ones, in units of `PERIOD`."""

    def __init__(self, codec: Codec, device: torch.device) -> None:
        self._codec = codec.to(device)
        self._device = device
        self._hop = codec.config.hop
        self._counter = codec.config.phase_counter

    @classmethod
    def load(cls, folder: Path, device: torch.device) -> Self:
        return cls(Codec.load(folder), device)

    def decode(self, windows: Sequence[CodecWindow], carries: Sequence[object | None]) -> list[Decoded]:
        """As one padded batch, of which the part is decoded that begins with the shortest context."""
        phases = [_phase(carry) for carry in carries]
        skipped = min(window.context for window in windows)
        pcm = self._pcm(windows, [self._at_first(*one) for one in zip(windows, phases, strict=True)], skipped)
        return [
            Decoded(self._new_part(window, samples, skipped), self._behind(window, phase))
            for window, samples, phase in zip(windows, pcm, phases, strict=True)
        ]

    def _pcm(
        self, windows: Sequence[CodecWindow], phases: list[int], skipped: int
    ) -> npt.NDArray[np.float32]:
        """[B, (W - skipped) * hop]; phases are those at the windows' first frames."""
        codes = np.zeros((len(windows), max(len(window.frames) for window in windows)), np.int64)
        if codes.size == 0:
            return np.zeros((len(windows), 0), np.float32)
        for row, window in zip(codes, windows, strict=True):
            row[: len(window.frames)] = window.frames[:, 0]
        ends = torch.tensor([len(window.frames) for window in windows], device=self._device)
        with torch.inference_mode():
            pcm = self._codec.decode_windows(
                torch.from_numpy(codes).to(self._device),
                torch.zeros_like(ends),
                ends,
                torch.tensor(phases, device=self._device),
                skipped,
            )
        samples: npt.NDArray[np.float32] = pcm.float().clamp(-1.0, 1.0).cpu().numpy()
        return samples

    def _new_part(self, window: CodecWindow, samples: Samples, skipped: int) -> Samples:
        start = window.context - skipped
        return samples[start * self._hop : (start + window.new) * self._hop]

    def _at_first(self, window: CodecWindow, phase: int) -> int:
        """From the phase at the first new frame to that at the first of the context."""
        return (phase - self._counter.passed(window.frames[: window.context + 1, 0])) % PERIOD

    def _behind(self, window: CodecWindow, phase: int) -> int:
        """An utterance that goes on has look-ahead, so the frame behind the new ones is there."""
        passed = window.frames[window.context : window.context + window.new + 1, 0]
        return (phase + self._counter.passed(passed)) % PERIOD

    def encode(self, audio: Samples) -> Frames:
        samples = torch.from_numpy(audio)[None].to(self._device)
        lengths = torch.tensor([len(audio) // self._hop], device=self._device)
        with torch.inference_mode():
            codes = self._codec.encode(samples, lengths)[0]
        frames: Frames = codes[:, None].cpu().numpy().astype(np.int32)
        return frames


def _phase(carry: object | None) -> int:
    if carry is None:
        return 0
    assert isinstance(carry, int)
    return carry
