from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from fake_backend import FakeBackend, InferenceResponse, Request
from hypothesis import given, settings
from hypothesis import strategies as st
from talkahead.backbone.llama import Llama
from talkahead.config import ModelConfig
from talkahead.families.phonemic.family import FAMILY
from talkahead.serving.encoder_server import EncoderServer
from talkahead.types import SegmentHeader, Spoken
from tiny_voice import HOP


@pytest.fixture
def encoder(
    backend: FakeBackend, config_of: Callable[..., ModelConfig], listening_repository: Path
) -> Iterator[EncoderServer]:
    server = EncoderServer(backend, config_of("encoder", listening_repository, threads="1"))
    yield server
    server.close()


SHIPPED = Path(__file__).parents[3] / "model_repository"
AS_THE_REFERENCE = 2
SILENCE = np.zeros(0, np.float32)
WORDS = np.array([[0, 2, 0, Spoken.WORD], [2, 3, 4, Spoken.PAUSE]], np.int32)


@pytest.fixture(scope="module")
def shipped() -> Iterator[EncoderServer]:
    """The sizes that are served: products of small ones are rounded alike in many shapes."""
    arguments = {"model_repository": str(SHIPPED / "encoder"), "model_version": "1"}
    backend, model = FakeBackend(), json.dumps({"max_batch_size": 16})
    server = EncoderServer(backend, ModelConfig.from_triton({**arguments, "model_config": model}))
    yield server
    server.close()


def segment(
    length: int,
    voice: int = 0,
    fill: int | None = None,
    *,
    stream: int = 1,
    index: int = 0,
    last: int = 1,
    key: int = 0,
    audio: np.ndarray = SILENCE,
) -> Request:
    rng = np.random.default_rng(length)
    symbols = np.zeros((length, 4), np.int32)
    symbols[:, 0] = rng.integers(1, 70, length) if fill is None else fill
    spoken_by = AS_THE_REFERENCE if key else voice
    header = SegmentHeader(stream, index, last, 0, length, seed=7, reference=key, voice=spoken_by)
    return Request(
        {
            "SYMBOLS": symbols,
            "REFERENCE": audio,
            "SEGMENT": header.to_array(),
            "WORDS": WORDS,
        }
    )


def recording(seed: int, frames: int = 60) -> np.ndarray:
    noise = np.random.default_rng(seed).standard_normal(HOP * frames)
    return (0.1 * noise).astype(np.float32)


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
        np.testing.assert_array_equal(prompt(response), prompt(alone))
        assert response.tensors["SEGMENT"].tolist() == [request.inputs["SEGMENT"].tolist()]
        assert response.tensors["WORDS"].tolist() == [WORDS.tolist()]


@settings(max_examples=10, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 120), st.integers(0, 3)), min_size=2, max_size=16))
def test_no_company_changes_a_bit(shipped: EncoderServer, company: list[tuple[int, int]]) -> None:
    voices = len(FAMILY.voices(SHIPPED / "encoder" / "1"))
    requests = [
        segment(length, voice % voices, stream=number) for number, (length, voice) in enumerate(company)
    ]
    together = answers(shipped, requests)
    for request, response in zip(requests, together, strict=True):
        (alone,) = answers(shipped, [request])
        np.testing.assert_array_equal(prompt(response), prompt(alone))


def test_a_segment_that_fails_is_told_to_the_talker_and_spares_its_neighbour(encoder: EncoderServer) -> None:
    good, bad = answers(encoder, [segment(5), segment(1, fill=-1)])
    assert np.isfinite(prompt(good)).all() and prompt(good).shape == (6, 32)
    assert np.isnan(prompt(bad)).all() and prompt(bad).shape == (1, 32)
    assert bad.error is None, "an error here would leak the ensemble's request"


def test_a_prompt_that_cannot_be_sent_is_in_the_log_and_spares_its_neighbours(
    encoder: EncoderServer, backend: FakeBackend
) -> None:
    """Nobody can be told: the call that failed has closed Triton's sender."""
    lost, whole = segment(5, stream=77), segment(5)
    lost.sender.fails_at = frozenset([0])
    encoder.execute([lost, whole])
    for request in (lost, whole):
        assert request.sender.ended.wait(10)
    assert lost.sender.responses == []
    assert np.isfinite(prompt(whole.sender.responses[0])).all()
    assert "stream=77" in backend.Logger.errors[0] and "no shared memory" in backend.Logger.errors[0]


def test_a_request_that_cannot_be_read_is_refused_and_spares_its_neighbours(
    encoder: EncoderServer, backend: FakeBackend
) -> None:
    strange = Request({"SYMBOLS": np.zeros((3, 4), np.int32)})
    good, bad, other = answers(encoder, [segment(5), strange, segment(5)])
    assert bad.error is not None and "REFERENCE" in str(bad.error)
    np.testing.assert_array_equal(prompt(good), prompt(other))


def test_a_reference_s_speech_follows_its_words(encoder: EncoderServer, listening_repository: Path) -> None:
    audio = recording(1)
    prompted, plain = answers(encoder, [segment(9, key=5, audio=audio), segment(9, voice=AS_THE_REFERENCE)])
    vocoder, talker = (listening_repository / model / "1" for model in ("vocoder", "talker"))
    frames = FAMILY.codec(vocoder, torch.device("cpu")).encode(audio)
    codes = torch.from_numpy(frames[:, 0])
    assert len(set(codes.tolist())) > 1
    np.testing.assert_allclose(prompt(prompted)[:10], prompt(plain), atol=1e-5)
    np.testing.assert_array_equal(prompt(prompted)[10:], Llama.load(talker).model.embed_tokens(codes).numpy())


def test_references_and_named_voices_in_one_batch_do_not_mix(encoder: EncoderServer) -> None:
    requests = [
        segment(5),
        segment(30, stream=2, key=5, audio=recording(1)),
        segment(12, voice=1, stream=3),
        segment(12, stream=4, key=6, audio=recording(2, frames=90)),
    ]
    together = answers(encoder, requests)
    for request, response in zip(requests, together, strict=True):
        (alone,) = answers(encoder, [request])
        np.testing.assert_array_equal(prompt(response), prompt(alone))


def test_two_recordings_of_the_same_words_are_two_voices(encoder: EncoderServer) -> None:
    one, other = answers(
        encoder, [segment(9, key=5, audio=recording(1)), segment(9, stream=2, key=6, audio=recording(2))]
    )
    assert not np.array_equal(prompt(one)[10:], prompt(other)[10:])


def test_later_segments_and_streams_bring_the_key_alone(encoder: EncoderServer, backend: FakeBackend) -> None:
    (first,) = answers(encoder, [segment(9, last=0, key=5, audio=recording(1))])
    (later,) = answers(encoder, [segment(20, index=1, key=5)])
    (again,) = answers(encoder, [segment(9, stream=2, key=5, audio=recording(1))])
    np.testing.assert_array_equal(prompt(first)[10:], prompt(later)[21:])
    np.testing.assert_array_equal(prompt(first), prompt(again))
    encoder.close()
    lookups = backend.metrics.metrics
    assert lookups["talkahead_voice_cache_lookups_total", "hit"].values == [1]
    assert lookups["talkahead_voice_cache_lookups_total", "miss"].values == [1]
    assert backend.metrics["talkahead_voice_cache_bytes"][-1] == 60 * 4


def test_a_key_that_nobody_knows_is_told_to_the_talker(encoder: EncoderServer, backend: FakeBackend) -> None:
    lost, named = answers(encoder, [segment(5, index=1, key=77), segment(5, stream=2, index=1)])
    assert np.isnan(prompt(lost)).all() and np.isfinite(prompt(named)).all()
    assert "cache does not know" in backend.Logger.errors[0]


def test_a_full_cache_drops_no_voice_that_a_stream_goes_on_with(
    backend: FakeBackend, config_of: Callable[..., ModelConfig], listening_repository: Path
) -> None:
    config = config_of("encoder", listening_repository, voice_cache_bytes=str(60 * 4))
    small = EncoderServer(backend, config)
    answers(small, [segment(9, last=0, key=5, audio=recording(1))])
    for stream in (2, 3):
        answers(small, [segment(9, stream=stream, key=10 + stream, audio=recording(stream))])
    after, forgotten = answers(
        small, [segment(9, index=1, last=1, key=5), segment(9, stream=2, index=1, key=12)]
    )
    small.close()
    assert np.isfinite(prompt(after)).all() and np.isnan(prompt(forgotten)).all()


def test_without_an_encoder_of_recordings_a_reference_is_told_to_the_talker(
    backend: FakeBackend, config_of: Callable[..., ModelConfig]
) -> None:
    server = EncoderServer(backend, config_of("encoder", threads="1"))
    like, named = answers(server, [segment(9, key=5, audio=recording(1)), segment(9, stream=2)])
    server.close()
    assert np.isnan(prompt(like)).all() and np.isfinite(prompt(named)).all()
    assert "nothing is spoken like a recording here" in backend.Logger.errors[0]


def test_the_stage_is_measured(encoder: EncoderServer, backend: FakeBackend) -> None:
    answers(encoder, [segment(5)])
    encoder.close()
    assert len(backend.metrics["talkahead_encoder_seconds"]) == 1
