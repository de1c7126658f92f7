"""`encoder`: segments of all streams to prompts, in one padded batch.

Shapes: B segments, T symbols of the longest, P = symbols of one + 1, D width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from talkahead.backbone.text_encoder import TextEncoder
from talkahead.config import ModelConfig
from talkahead.errors import ArtifactMismatch
from talkahead.serving.artifacts import verified
from talkahead.serving.model_device import claim_device
from talkahead.serving.triton_api import Array, InferenceRequest, TritonApi, Wire
from talkahead.telemetry import Telemetry
from talkahead.text.symbols import NUM_SYMBOLS

_WARM_UP_SYMBOLS = (20, 40, 80, 160)


@dataclass(frozen=True)
class _Segment:
    """One request's tensors: symbols int32 [T, 4] and a voice's id."""

    symbols: npt.NDArray[np.int32]
    voice: int


class EncoderServer:
    """The serve loop of `encoder`."""

    def __init__(self, api: TritonApi, config: ModelConfig) -> None:
        self._wire = Wire(api)
        self._telemetry = Telemetry(api, "encoder", ("encoder",))
        self._device = claim_device(config, "encoder")
        self._encoder = _load(config.folder).to(self._device)
        for length in _WARM_UP_SYMBOLS:
            for batch in (1, min(4, config.max_batch_size)):
                self._encode([_Segment(np.zeros((length, 4), np.int32), 0)] * batch)

    def execute(self, requests: Sequence[InferenceRequest]) -> list[object]:
        with self._telemetry.timed("encoder"):
            segments = [self._read(request) for request in requests]
            prompts = self._prompts(segments)
        return [
            self._wire.response(PROMPT=prompt, SEGMENT=self._wire.array(request, "SEGMENT"))
            for request, prompt in zip(requests, prompts, strict=True)
        ]

    def close(self) -> None:
        self._telemetry.close()

    def _read(self, request: InferenceRequest) -> _Segment:
        voice = int(self._wire.array(request, "VOICE_ID")[0])
        return _Segment(self._wire.array(request, "SYMBOLS"), voice)

    def _prompts(self, segments: list[_Segment]) -> list[Array]:
        """A failed batch is tried one by one, so that no segment fails for its neighbour.

        A Triton error here would leave the ensemble's request open for ever: the talker ends the stream
        instead, on a prompt that is not a number.
        """
        try:
            return self._encode(segments)
        except Exception:
            if len(segments) == 1:
                return [self._no_prompt()]
            return [prompt for segment in segments for prompt in self._prompts([segment])]

    def _no_prompt(self) -> Array:
        return np.full((1, self._encoder.config.width), np.nan, np.float32)

    def _encode(self, segments: list[_Segment]) -> list[Array]:
        lengths = [len(segment.symbols) for segment in segments]
        symbols = np.zeros((len(segments), max(lengths), 4), np.int64)  # (B, T, 4)
        for row, segment in zip(symbols, segments, strict=True):
            row[: len(segment.symbols)] = segment.symbols
        with torch.inference_mode():
            prompts = self._encoder(
                torch.from_numpy(symbols).to(self._device),
                torch.tensor(lengths, device=self._device),
                torch.tensor([segment.voice for segment in segments], device=self._device),
            )  # (B, T + 1, D)
        rows = prompts.float().cpu().numpy()
        return [row[: length + 1] for row, length in zip(rows, lengths, strict=True)]


def _load(folder: Path) -> TextEncoder:
    encoder = TextEncoder.load(verified(folder))
    if encoder.config.num_symbols != NUM_SYMBOLS:
        raise ArtifactMismatch(
            f"{folder}: the encoder knows {encoder.config.num_symbols} symbols, the frontend {NUM_SYMBOLS}; "
            "rebuild it with: make train"
        )
    return encoder
