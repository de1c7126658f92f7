from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from fake_backend import FakeBackend, InferenceResponse, Request
from talkahead.config import ModelConfig
from talkahead.serving.encoder_server import EncoderServer


@pytest.fixture
def encoder(backend: FakeBackend, config_of: Callable[..., ModelConfig]) -> Iterator[EncoderServer]:
    server = EncoderServer(backend, config_of("encoder", threads="1"))
    yield server
    server.close()


def segment(length: int, voice: int = 0, fill: int | None = None) -> Request:
    rng = np.random.default_rng(length)
    symbols = np.zeros((length, 4), np.int32)
    symbols[:, 0] = rng.integers(1, 70, length) if fill is None else fill
    return Request(
        {
            "SYMBOLS": symbols,
            "VOICE_ID": np.array([voice], np.int32),
            "REFERENCE": np.zeros(0, np.float32),
            "SEGMENT": np.arange(8, dtype=np.int64) + length,
        }
    )


def answers(server: EncoderServer, requests: list[Request]) -> list[InferenceResponse]:
    """One final response each, whenever it comes."""
    for request in requests:
        request.sender.ended.clear()
        request.sender.sent.clear()
    server.execute(requests)
    for request in requests:
        assert request.sender.ended.wait(10)
    return [request.sender.responses[0] for request in requests]


def prompt(response: object) -> np.ndarray:
    assert isinstance(response, InferenceResponse)
    return response.tensors["PROMPT"][0]


def test_a_batch_gives_what_each_segment_gives_alone(encoder: EncoderServer) -> None:
    requests = [segment(5), segment(30, voice=1), segment(12)]
    together = answers(encoder, requests)
    for request, response in zip(requests, together, strict=True):
        (alone,) = answers(encoder, [request])
        length = len(request.inputs["SYMBOLS"])
        assert prompt(response).shape == (length + 1, 32) and prompt(response).dtype == np.float32
        np.testing.assert_allclose(prompt(response), prompt(alone), atol=1e-5)
        assert response.tensors["SEGMENT"].tolist() == [request.inputs["SEGMENT"].tolist()]


def test_a_segment_that_fails_is_told_to_the_talker_and_spares_its_neighbour(encoder: EncoderServer) -> None:
    good, bad = answers(encoder, [segment(5), segment(1, fill=-1)])
    assert np.isfinite(prompt(good)).all() and prompt(good).shape == (6, 32)
    assert np.isnan(prompt(bad)).all() and prompt(bad).shape == (1, 32)
    assert bad.error is None, "an error here would leak the ensemble's request"


def test_the_stage_is_measured(encoder: EncoderServer, backend: FakeBackend) -> None:
    answers(encoder, [segment(5)])
    encoder.close()
    assert len(backend.metrics["talkahead_encoder_seconds"]) == 1
