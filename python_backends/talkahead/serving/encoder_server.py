"""`encoder`: segments of all streams to prompts, one by one: the same bits in any company.

Triton would hand over segments as they came, and twenty thousand characters are hundreds of them: a newcomer
would wait for all. So `execute` only puts them in line, and a thread answers them, openings of streams first.

Shapes: T units of U columns, N samples, F frames of C codes, H tokens, P prompt rows, D width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from threading import Thread

import numpy as np

from talkahead.config import AUTO, ModelConfig
from talkahead.errors import TalkaheadError
from talkahead.families.contracts import Frames, Samples, Units, Words
from talkahead.families.registry import load_family
from talkahead.serving.artifacts import verified
from talkahead.serving.model_device import claim_device
from talkahead.serving.reference_encoder import ReferenceEncoder
from talkahead.serving.segment_queue import SegmentQueue
from talkahead.serving.triton_api import Array, InferenceRequest, ResponseSender, TritonApi, Wire
from talkahead.speech_format import SpeechFormat
from talkahead.telemetry import EncoderTelemetry
from talkahead.types import SegmentHeader

_WARM_UP_UNITS = (20, 40, 80, 160)


@dataclass(frozen=True)
class _Segment:
    """One request: units, a reference (empty for none, and after a stream's first segment), its header, its
    words, which the talker gets as they are, and where its answer goes."""

    units: Units
    reference: Samples
    header: SegmentHeader
    words: Words
    sender: ResponseSender


class EncoderServer:
    """The serve loop of `encoder`."""

    def __init__(self, api: TritonApi, config: ModelConfig) -> None:
        self._wire = Wire(api)
        self._telemetry = EncoderTelemetry(api)
        device = claim_device(config, "encoder")
        vocoder = config.artifact_folder("vocoder")
        speech = SpeechFormat.read(verified(vocoder))
        family = load_family(speech.family)
        verified(config.artifact_folder("talker"))
        self._encoder = family.prompt_encoder(
            verified(config.folder), device, config.parameters.get("engine", AUTO)
        )
        self._tokens = family.token_map(speech)
        self._references: ReferenceEncoder | None = None
        if speech.reference_positions:
            codec = family.codec(vocoder, device)
            self._references = ReferenceEncoder(config, codec, speech, self._telemetry)
        columns = family.unit_columns
        for length in _WARM_UP_UNITS:
            self._encoder.prompt(np.zeros((length, columns), np.int32), 0, None)
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
            units=self._wire.array(request, "SYMBOLS"),
            reference=self._wire.array(request, "REFERENCE"),
            header=SegmentHeader.from_array(self._wire.array(request, "SEGMENT")),
            words=self._wire.array(request, "WORDS"),
            sender=request.get_response_sender(),
        )

    def _run(self) -> None:
        while (segment := self._waiting.take()) is not None:
            # A Triton error would leave the ensemble's request open for ever: the talker ends the stream
            # instead, on a prompt that is not a number.
            nothing = np.full((1, self._encoder.width), np.nan, np.float32)
            self._wire.end(
                f"segment {segment.header}",
                segment.sender,
                partial(self._answer, segment),
                partial(self._response, segment, nothing, None),
                is_apart=False,
            )

    def _answer(self, segment: _Segment) -> object:
        with self._telemetry.timed("encoder"):
            # The reference first: the cache counts a stream's segments, those that fail included.
            reference = self._frames(segment)
            prompt = self._encoder.prompt(segment.units, segment.header.voice, reference)
        spoken = self._encoder.spoken(segment.header.voice, reference)
        return self._response(segment, prompt.cpu().numpy(), spoken)

    def _response(self, segment: _Segment, prompt: Array, spoken: Frames | None) -> object:
        """HISTORY int32 [H]: the talker's tokens that the prompt goes on from, for rules on history."""
        history = np.zeros(0, np.int64) if spoken is None else self._tokens.tokens(spoken)
        return self._wire.response(
            PROMPT=prompt,
            HISTORY=history.astype(np.int32),
            SEGMENT=segment.header.to_array(),
            WORDS=segment.words,
        )

    def _frames(self, segment: _Segment) -> Frames | None:
        """Of the reference that comes with the segment, or came with the stream's first."""
        if not segment.header.reference:
            return None
        if self._references is None:
            raise TalkaheadError("nothing is spoken like a recording here, and a segment came with one")
        return self._references.frames(segment.header, segment.reference)
