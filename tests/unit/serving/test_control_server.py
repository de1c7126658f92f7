from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest
from fake_backend import FakeBackend, InferenceResponse, Request, TritonError, string
from fake_talker import Acknowledged
from talkahead.config import ModelConfig
from talkahead.serving.control_server import ControlServer
from tiny_voice import RATE_HZ


@pytest.fixture
def control(backend: FakeBackend, config_of: Callable[..., ModelConfig]) -> ControlServer:
    return ControlServer(backend, config_of("control"))


def ask(control: ControlServer, command: str, **inputs: object) -> InferenceResponse:
    (response,) = control.execute([Request({"COMMAND": string(command), **inputs})])
    assert isinstance(response, InferenceResponse)
    return response


def result(response: InferenceResponse) -> dict[str, object]:
    assert response.error is None and response.tensors["RESULT"].shape == (1, 1)
    return json.loads(response.tensors["RESULT"][0, 0])


def test_voices(control: ControlServer) -> None:
    assert result(ask(control, "voices")) == {"voices": ["slt", "rms"], "sample_rate_hz": RATE_HZ}


def test_load(control: ControlServer, talker: Acknowledged) -> None:
    load = result(ask(control, "load"))
    assert (load["active"], load["queued"], load["open_streams"], load["slots"]) == (2, 1, 3, 16)
    assert load["predicted_first_chunk_ms"] == 40.0


def test_cancel_by_stream_or_request(control: ControlServer, talker: Acknowledged) -> None:
    assert result(ask(control, "cancel", STREAM=np.array([12], np.int64))) == {"cancelled": 1}
    assert result(ask(control, "cancel", REQUEST_ID=string("mine"))) == {"cancelled": 1}
    assert talker.cancelled == [(12, None), (None, "mine")]


@pytest.mark.parametrize(
    ("command", "code", "sentence"),
    [
        ("stop", TritonError.INVALID_ARG, "COMMAND: 'stop' is not accepted; allowed: cancel, voices, load"),
        ("cancel", TritonError.INVALID_ARG, "give STREAM or REQUEST_ID"),
        ("load", TritonError.UNAVAILABLE, "no talker answers"),
    ],
)
def test_what_cannot_be_answered(control: ControlServer, command: str, code: int, sentence: str) -> None:
    error = ask(control, command).error
    assert error is not None and error.code == code and sentence in str(error)
