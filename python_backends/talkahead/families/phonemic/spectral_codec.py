"""The codec of sounds and prosody in windows. From one window to the next it carries the decoder's state, so
that no frame is decoded twice.

Shapes: B windows, T frames of the longest run, D numbers of a frame's description.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import torch
from torch import Tensor

from talkahead.cpu_path import has_bfloat16_products
from talkahead.errors import ArtifactMismatch, TalkaheadError
from talkahead.families.contracts import TORCH, CodecWindow, Decoded, Frames, Samples
from talkahead.families.phonemic.frontend import NAME, SEGMENT_POSITIONS
from talkahead.families.phonemic.onnx_decoder import ONNXRUNTIME, OnnxDecoder
from talkahead.families.phonemic.spectral_decoder import (
    BEFORE,
    PITCH_BEFORE,
    SpectralConfig,
    SpectralDecoder,
    SpectralNetwork,
)
from talkahead.families.phonemic.spectral_renderer import Renderer, Tail
from talkahead.speech_format import SpeechFormat

CONTEXT = PITCH_BEFORE - 1
"""Frames before a window's new ones that it must bring: a run begins one frame after the new ones do."""

_SHORTEST_RUN = 4
"""Frames to which runs are padded: products of fewer rows add up in another order, which products in bfloat16
make a difference of 7e-4 of full scale."""


def speech_format(config: SpectralConfig, silence: int, max_positions: int) -> SpeechFormat:
    """Of a codec with a code of silence, and a talker with so many positions."""
    return SpeechFormat(
        family=NAME,
        sample_rate_hz=config.sample_rate_hz,
        hop=config.hop,
        codebooks=(config.num_codes,),
        context_frames=CONTEXT,
        lookahead_frames=config.lookahead_frames,
        silence=(silence,),
        max_positions=max_positions,
        segment_positions=SEGMENT_POSITIONS,
        has_encoder=False,
    )


@dataclass(frozen=True)
class _State:
    """Behind a run: what the blocks saw last [blocks, BEFORE, W], and the renderer's tail."""

    seen: Tensor
    tail: Tail


@dataclass(frozen=True)
class _Runs:
    """What a batch of windows asks of the decoder: runs of frames, each a row, padded at their end.

    Args:
        codes: int64 [B, PITCH_BEFORE + T + lookahead], from `PITCH_BEFORE` frames before each run on.
        valid: which of these are frames of the utterance.
        first, frames: of each run its first frame's place in its utterance, and its length [B].
    """

    codes: Tensor
    valid: Tensor
    first: Tensor
    frames: Tensor

    @classmethod
    def of(cls, windows: Sequence[CodecWindow], lookahead: int) -> _Runs:
        """A run goes from the frame behind the first new one, or from an utterance's first frame, to the one
        behind the last."""
        begins = np.array([window.position == 0 for window in windows])
        frames = np.array([window.new for window in windows]) + begins
        longest = max(_SHORTEST_RUN, int(frames.max()))
        codes = np.zeros((len(windows), PITCH_BEFORE + longest + lookahead), np.int64)
        valid = np.zeros(codes.shape, bool)
        for row, (window, begin) in enumerate(zip(windows, begins, strict=True)):
            start = PITCH_BEFORE - (0 if begin else 1 + window.context)
            known = window.frames[max(-start, 0) :, 0][: codes.shape[1] - max(start, 0)]
            span = slice(max(start, 0), max(start, 0) + len(known))
            codes[row, span], valid[row, span] = known, True
        first = np.array([window.position for window in windows]) + ~begins
        return cls(*map(torch.from_numpy, (codes, valid, first, frames)))


class SpectralCodec:
    """A `Codec`."""

    def __init__(self, network: SpectralNetwork, device: torch.device) -> None:
        self._network, self._device = network, device
        self._renderer = Renderer(network.config).to(device, network.dtype)

    @classmethod
    def load(cls, folder: Path, device: torch.device, engine: str = TORCH) -> Self:
        if engine == ONNXRUNTIME and device.type == "cpu":
            return cls(OnnxDecoder.load(folder), device)
        if engine != TORCH:
            raise ArtifactMismatch(
                f"engine: {engine!r} is none of this codec on {device.type}; allowed: {TORCH}, and "
                f"{ONNXRUNTIME} on a CPU"
            )
        decoder = SpectralDecoder.load(folder)
        if device.type == "cpu" and has_bfloat16_products():
            decoder.to_bfloat16_products()
        return cls(decoder.to(device), device)

    def decode(self, windows: Sequence[CodecWindow], carries: Sequence[object | None]) -> list[Decoded]:
        runs = _Runs.of(windows, self._network.config.lookahead)
        with torch.inference_mode():
            audio, states = self._decoded(runs, self._joined(carries))
        samples = audio.float().clamp(-1.0, 1.0).cpu().numpy()
        return [
            Decoded(self._new_part(window, row), state)
            for window, row, state in zip(windows, samples, states, strict=True)
        ]

    def _decoded(self, runs: _Runs, before: _State) -> tuple[Tensor, list[_State]]:
        spectra, pitch, seen = self._network(
            runs.codes.to(self._device), runs.valid.to(self._device), before.seen
        )
        frames, first = runs.frames.to(self._device), runs.first.to(self._device)
        audio, tail = self._renderer(spectra, pitch.hertz(), before.tail, first, frames)
        rows = frames[:, None, None, None] + torch.arange(BEFORE, device=self._device)[:, None]
        last = seen.gather(2, rows.expand(-1, seen.shape[1], -1, seen.shape[3]))
        return audio, [_State(one, Tail(*parts)) for one, *parts in zip(last, *tail, strict=True)]

    def _joined(self, carries: Sequence[object | None]) -> _State:
        """The states of all windows, row by row."""
        config = self._network.config
        silent = self._renderer.begin(1)
        nothing = silent.pulses.new_zeros(config.blocks, BEFORE, config.width)
        fresh = _State(nothing, Tail(*(part[0] for part in silent)))
        states = [_state(carry) or fresh for carry in carries]
        tails = zip(*(state.tail for state in states), strict=True)
        return _State(torch.stack([state.seen for state in states]), Tail(*map(torch.stack, tails)))

    def _new_part(self, window: CodecWindow, samples: Samples) -> Samples:
        """An utterance's first run sounds from a frame before its start on, which is silence."""
        hop = self._network.config.hop
        start = hop if window.position == 0 else 0
        return samples[start : start + window.new * hop]

    def encode(self, audio: Samples) -> Frames:
        raise TalkaheadError("this voice's codec has no encoder: nothing is spoken like a recording")


def _state(carry: object | None) -> _State | None:
    assert carry is None or isinstance(carry, _State)
    return carry
