"""`encoder`: segments of all streams to prompts, one by one: the same bits in any company.

Triton would hand over segments as they came, and twenty thousand characters are hundreds of them: a newcomer
would wait for all. So `execute` only puts them in line, and a thread answers them, openings of streams first.

Shapes: T symbols, N samples, F frames, D width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
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
        self._telemetry = EncoderTelemetry(api)
        self._device = claim_device(config, "encoder")
        self._encoder = _load(config.folder).to(self._device)
        self._references = ReferenceEncoder(config, self._device, self._encoder.config.width, self._telemetry)
        for length in _WARM_UP_SYMBOLS:
            self._encode(np.zeros((length, 4), np.int32), 0)
        self._waiting: SegmentQueue[_Segment] = SegmentQueue()
        self._thread = Thread(target=self._run, name="encoder-segments", daemon=True)
        self._thread.start()

    def execute(self, requests: Sequence[InferenceRequest]) -> None:
        for request in requests:
            try:
                segment = self._read(request)
            except Exception as error:
                self._wire.refuse("a segment", request.get_response_sender(), error)
            else:
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
        while (segment := self._waiting.take()) is not None:
            # A Triton error would leave the ensemble's request open for ever: the talker ends the stream
            # instead, on a prompt that is not a number.
            nothing = np.full((1, self._encoder.config.width), np.nan, np.float32)
            self._wire.end(
                f"segment {segment.header}",
                segment.sender,
                partial(self._answer, segment),
                partial(self._response, segment, nothing),
                is_apart=False,
            )

    def _answer(self, segment: _Segment) -> object:
        with self._telemetry.timed("encoder"):
            prompt = self._prompt(segment)
        return self._response(segment, prompt)

    def _response(self, segment: _Segment, prompt: Array) -> object:
        return self._wire.response(PROMPT=prompt, SEGMENT=segment.header.to_array())

    def _prompt(self, segment: _Segment) -> Array:
        """The words [T + 1, D], and behind them the reference's speech [F, D] where there is one."""
        # The reference first: the cache counts a stream's segments, those that fail included.
        heard = self._heard(segment)
        return np.concatenate([self._encode(segment.symbols, segment.voice), heard])

    def _heard(self, segment: _Segment) -> Array:
        if not segment.header.reference:
            return np.zeros((0, self._encoder.config.width), np.float32)
        return self._references.rows(segment.header, segment.reference)

    def _encode(self, symbols: npt.NDArray[np.int32], voice: int) -> Array:
        """The prompt [T + 1, D] of symbols [T, 4]."""
        rows = torch.from_numpy(symbols).to(self._device)
        prompt: Array = self._encoder.prompt(rows, voice).float().cpu().numpy()
        return prompt


def _load(folder: Path) -> TextEncoder:
    encoder = TextEncoder.load(verified(folder))
    if encoder.config.num_symbols != NUM_SYMBOLS:
        raise ArtifactMismatch(
            f"{folder}: the encoder knows {encoder.config.num_symbols} symbols, the frontend {NUM_SYMBOLS}; "
            "rebuild it with: make train"
        )
    return encoder
