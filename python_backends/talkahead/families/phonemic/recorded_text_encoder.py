"""The text encoder as graphs of a device, by the symbols of a segment.

Shapes: T symbols, D width of a prompt.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from talkahead.backbone.forward_graphs import GraphRecorder
from talkahead.backbone.recorded_function import RecordedFunction
from talkahead.families.phonemic.text_encoder import TextEncoder, TextEncoderConfig

_STEP = 16
"""Segments are padded to a multiple of so many symbols, so that few sizes occur. A segment always is to the
same, so that its prompt has the same bits whenever it comes."""


class RecordedTextEncoder:
    """A `PromptNetwork`."""

    def __init__(self, encoder: TextEncoder, recorder: GraphRecorder) -> None:
        self._encoder = encoder
        self._call = RecordedFunction(lambda *given: (encoder(*given),), recorder)

    @property
    def config(self) -> TextEncoderConfig:
        return self._encoder.config

    @property
    def precision(self) -> torch.dtype:
        return self._encoder.precision

    @torch.inference_mode()
    def prompt(self, symbols: Tensor, voice: int) -> Tensor:
        """The prompt [T + 1, D] of one segment, int32 or int64 [T, 4]."""
        length, device = len(symbols), symbols.device
        padded = functional.pad(symbols.to(torch.int64), (0, 0, 0, -length % _STEP))
        told = (torch.tensor([one], device=device) for one in (length, voice))
        (prompts,) = self._call(padded[None], *told)
        return prompts[0, : length + 1]
