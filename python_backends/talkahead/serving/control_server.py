"""`control`: ends a stream, lists the voices, reports how busy the talker is."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict

import numpy as np

from talkahead.config import ModelConfig
from talkahead.errors import BadRequest, Code, TalkaheadError
from talkahead.serving.triton_api import InferenceRequest, TritonApi, Wire
from talkahead.serving.voices import Voices
from talkahead.speech_format import SpeechFormat
from talkahead.transport.control_client import ControlClient
from talkahead.transport.messages import LoadReport


class ControlServer:
    """The serve loop of `control`. RESULT is one JSON object."""

    def __init__(self, api: TritonApi, config: ModelConfig) -> None:
        self._wire = Wire(api)
        speech = SpeechFormat.read(config.artifact_folder("vocoder"))
        voices = {"voices": Voices.of(config).names, "sample_rate_hz": speech.sample_rate_hz}
        self._talkers = ControlClient()
        self._commands: dict[str, Callable[[InferenceRequest], dict[str, object]]] = {
            "cancel": self._cancel,
            "voices": lambda _: dict(voices),
            "load": lambda _: _joined(self._talkers.load()),
        }

    def execute(self, requests: Sequence[InferenceRequest]) -> list[object]:
        return [self._answer(request) for request in requests]

    def close(self) -> None:
        """Nothing is held open."""

    def _answer(self, request: InferenceRequest) -> object:
        try:
            command = self._wire.text(request, "COMMAND") or ""
            if command not in self._commands:
                raise BadRequest("COMMAND", command, ", ".join(self._commands))
            result = json.dumps(self._commands[command](request)).encode()
            return self._wire.response(RESULT=np.array([result], np.object_))
        except Exception as error:
            return self._wire.failure(error)

    def _cancel(self, request: InferenceRequest) -> dict[str, object]:
        stream = self._wire.optional(request, "STREAM")
        request_id = self._wire.text(request, "REQUEST_ID")
        cancelled = self._talkers.cancel(None if stream is None else int(stream.reshape(-1)[0]), request_id)
        return {"cancelled": cancelled}


_COUNTS = ("active", "queued", "open_streams", "slots", "slots_taken", "windows_in_flight", "at_risk")


def _joined(reports: list[LoadReport]) -> dict[str, object]:
    """One report for all talkers: sums, and the best prediction, since a newcomer may go to any."""
    if not reports:
        raise TalkaheadError("no talker answers", Code.UNAVAILABLE)
    best = min(reports, key=lambda report: report.predicted_first_chunk_ms)
    sums = {name: sum(getattr(report, name) for report in reports) for name in _COUNTS}
    return {**asdict(best), **sums}
