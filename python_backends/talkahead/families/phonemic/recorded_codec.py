"""The spectral codec's network and renderer as graphs of a device, by rows and frames of a run.

Shapes: as of what they replay.
"""

from __future__ import annotations

import torch
from torch import Tensor

from talkahead.backbone.forward_graphs import GraphRecorder
from talkahead.backbone.recorded_function import RecordedFunction
from talkahead.families.phonemic.spectral_decoder import (
    NetworkOutput,
    Pitch,
    Spectra,
    SpectralConfig,
    SpectralNetwork,
)
from talkahead.families.phonemic.spectral_renderer import Renderer, Tail

FRAME_STEP = 4
"""Runs are padded to a multiple of so many frames, so that few sizes occur."""


class RecordedSpectralNetwork:
    """A `SpectralNetwork`."""

    def __init__(self, network: SpectralNetwork, recorder: GraphRecorder) -> None:
        self._network = network

        def flat(codes: Tensor, valid: Tensor, before: Tensor) -> tuple[Tensor, ...]:
            made = network(codes, valid, before)
            return *made.spectra, *made.pitch, made.seen

        self._call = RecordedFunction(flat, recorder)

    @property
    def config(self) -> SpectralConfig:
        return self._network.config

    @property
    def dtype(self) -> torch.dtype:
        return self._network.dtype

    @property
    def precision(self) -> torch.dtype:
        return self._network.precision

    def __call__(self, codes: Tensor, valid: Tensor, before: Tensor) -> NetworkOutput:
        made = self._call(codes, valid, before)
        kinds = len(Spectra._fields)
        return NetworkOutput(Spectra(*made[:kinds]), Pitch(*made[kinds:-1]), made[-1])


class RecordedRenderer:
    """Renders as a `Renderer` does."""

    def __init__(self, renderer: Renderer, recorder: GraphRecorder) -> None:
        self.begin, self.frame_hop = renderer.begin, renderer.frame_hop
        kinds = len(Spectra._fields)

        def flat(hertz: Tensor, frames: Tensor, *parts: Tensor) -> tuple[Tensor, ...]:
            audio, after = renderer(Spectra(*parts[:kinds]), hertz, Tail(*parts[kinds:]), frames)
            return audio, *after

        self._call = RecordedFunction(flat, recorder)

    def __call__(self, spectra: Spectra, hertz: Tensor, tail: Tail, frames: Tensor) -> tuple[Tensor, Tail]:
        audio, *after = self._call(hertz, frames, *spectra, *tail)
        return audio, Tail(*after)
