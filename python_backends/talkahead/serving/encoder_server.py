"""`encoder`: segments of all streams to prompts, in padded batches.

Triton would hand over segments as they came, and twenty thousand characters are hundreds of them: a newcomer
would wait for all. So `execute` only puts them in line, and a thread answers them, openings of streams first.

Shapes: B segments, T symbols of the longest, P = symbols of one + 1, N samples, F frames, D width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

import numpy as np
import numpy.typing as npt
import torch

from talkahead.backbone.text_encoder import TextEncoder
from talkahead.config import ModelConfig
from talkahead.errors import ArtifactMismatch
from talkahead.serving.artifacts import verified
from talkahead.serving.model_device import claim_device
from talkahead.serving.reference_encoder import ReferenceEncoder
from talkahead.serving.segment_queue import SegmentQueue
from talkahead.serving.triton_api import Array, InferenceRequest, ResponseSender, TritonApi, Wire
from talkahead.telemetry import EncoderTelemetry
from talkahead.text.symbols import NUM_SYMBOLS
from talkahead.types import SegmentHeader

_WARM_UP_SYMBOLS = (20, 40, 80, 160)
_CONTINUING = 4
"""Segments of streams that speak already, in one batch: a newcomer waits for no more."""


@dataclass(frozen=True)
class _Segment:
    """One request: symbols int32 [T, 4] and a voice's id, a reference float32 [N] (empty for none, and after
    a stream's first segment), its header, and where its answer goes."""

    symbols: npt.NDArray[np.int32]
    voice: int
    reference: npt.NDArray[np.float32]
    header: SegmentHeader
    sender: ResponseSender


class EncoderServer:
    """The serve loop of `encoder`."""

    def __init__(self, api: TritonApi, config: ModelConfig) -> None:
        self._wire = Wire(api)
        self._log = api.Logger
        self._telemetry = EncoderTelemetry(api)
        self._device = claim_device(config, "encoder")
        self._encoder = _load(config.folder).to(self._device)
        self._references = ReferenceEncoder(config, self._device, self._encoder.config.width, self._telemetry)
        for length in _WARM_UP_SYMBOLS:
            for batch in (1, min(4, config.max_batch_size)):
                self._encode([np.zeros((length, 4), np.int32)] * batch, [0] * batch)
        self._waiting: SegmentQueue[_Segment] = SegmentQueue(max(1, config.max_batch_size), _CONTINUING)
        self._thread = Thread(target=self._run, name="encoder-batches", daemon=True)
        self._thread.start()

    def execute(self, requests: Sequence[InferenceRequest]) -> None:
        for request in requests:
            segment = self._read(request)
            self._waiting.put(segment.header.segment, segment)

    def close(self) -> None:
        """Answers what waits, then stops."""
        self._waiting.close()
        self._thread.join()
        self._telemetry.close()

    def _read(self, request: InferenceRequest) -> _Segment:
        return _Segment(
            symbols=self._wire.array(request, "SYMBOLS"),
            voice=int(self._wire.array(request, "VOICE_ID")[0]),
            reference=self._wire.array(request, "REFERENCE"),
            header=SegmentHeader.from_array(self._wire.array(request, "SEGMENT")),
            sender=request.get_response_sender(),
        )

    def _run(self) -> None:
        while segments := self._waiting.take():
            with self._telemetry.timed("encoder"):
                prompts = list(map(self._continued, segments, self._prompts(segments)))
            for segment, prompt in zip(segments, prompts, strict=True):
                response = self._wire.response(PROMPT=prompt, SEGMENT=segment.header.to_array())
                segment.sender.send(response, flags=self._wire.final)

    def _prompts(self, segments: list[_Segment]) -> list[Array]:
        """A failed batch is tried one by one, so that no segment fails for its neighbour.

        A Triton error here would leave the ensemble's request open for ever: the talker ends the stream
        instead, on a prompt that is not a number.
        """
        try:
            return self._encode(
                [segment.symbols for segment in segments], [segment.voice for segment in segments]
            )
        except Exception:
            if len(segments) == 1:
                return [self._no_prompt()]
            return [prompt for segment in segments for prompt in self._prompts([segment])]

    def _continued(self, segment: _Segment, prompt: Array) -> Array:
        """The prompt [P, D], and behind it the reference's speech [F, D] where there is one."""
        if not segment.header.reference:
            return prompt
        try:
            return np.concatenate([prompt, self._references.rows(segment.header, segment.reference)])
        except Exception as error:
            self._log.log_error(f"reference of {segment.header}: {type(error).__name__}: {error}")
            return self._no_prompt()

    def _no_prompt(self) -> Array:
        return np.full((1, self._encoder.config.width), np.nan, np.float32)

    def _encode(self, segments: list[npt.NDArray[np.int32]], voices: list[int]) -> list[Array]:
        """Prompts [P, D] of symbols [T, 4], as one padded batch."""
        lengths = list(map(len, segments))
        padded = np.zeros((len(segments), max(lengths), 4), np.int64)  # (B, T, 4)
        for row, symbols in zip(padded, segments, strict=True):
            row[: len(symbols)] = symbols
        with torch.inference_mode():
            prompts = self._encoder(
                torch.from_numpy(padded).to(self._device),
                torch.tensor(lengths, device=self._device),
                torch.tensor(voices, device=self._device),
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
