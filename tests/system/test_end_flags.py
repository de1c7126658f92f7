"""How a stream ends on the wire, and that clients understand either way of saying so."""

from __future__ import annotations

from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc
from hearing import SAME_FRAMES, Utterance, difference, speak
from raw import RawStream, speech_request, tensors_of
from served import Served
from talkahead_client import AudioChunk, Client
from talkahead_client.patience import Patience
from talkahead_client.reception import Reception
from tritonclient.grpc import service_pb2
from tritonclient.utils import InferenceServerException

TEXT = "Thank you for calling. Good morning!"
OPTIONS: dict[str, Any] = {"seed": 3, "max_seconds": 1.5}


@pytest.fixture(scope="module")
def spoken(client: Client) -> Utterance:
    return speak(client, TEXT, **OPTIONS)


@pytest.mark.parametrize("is_final_wanted", [True, False])
def test_exactly_one_terminal_event(is_final_wanted: bool, server: Served) -> None:
    request = speech_request(TEXT, parameters=OPTIONS, is_final_wanted=is_final_wanted)
    with RawStream(server.grpc, request) as stream:
        responses = list(stream)
    finals = [response.parameters["triton_final_response"].bool_param for response in responses]
    if is_final_wanted:
        assert finals == [False] * (len(finals) - 1) + [True]
    else:
        # The flag comes with the last data, or the stream just closes: that is Triton's choice.
        assert not any(finals[:-1])
        assert all(response.outputs for response in responses)
    lasts = [bool(tensors_of(response)["IS_LAST"][0]) for response in responses if response.outputs]
    assert lasts == [False] * (len(lasts) - 1) + [True]


@pytest.mark.parametrize("is_final_wanted", [True, False])
@pytest.mark.parametrize("is_flag_on_data", [True, False])
def test_client_accepts_the_end_either_way(
    is_final_wanted: bool, is_flag_on_data: bool, server: Served, spoken: Utterance
) -> None:
    """`is_flag_on_data`: as a Triton would answer that finishes with the last data response."""
    request = speech_request(TEXT, parameters=OPTIONS, is_final_wanted=is_final_wanted)
    with RawStream(server.grpc, request) as stream:
        responses = list(stream)
    if is_flag_on_data:
        responses = [response for response in responses if response.outputs]
        responses[-1].parameters["triton_final_response"].bool_param = True
    heard = Utterance(tuple(_received(responses))).check()
    assert difference(heard.audio, spoken.audio) < SAME_FRAMES


def _received(responses: list[service_pb2.ModelInferResponse]) -> list[AudioChunk]:
    """What the project's client makes of them."""
    reception = Reception(Patience())
    messages = [service_pb2.ModelStreamInferResponse(infer_response=response) for response in responses]
    chunks = [chunk for message in messages if (chunk := reception.accept(message)) is not None]
    reception.finish()
    return chunks


@pytest.mark.parametrize("is_final_wanted", [True, False])
def test_nvidias_own_client_streams_speech(is_final_wanted: bool, server: Served, spoken: Utterance) -> None:
    results: SimpleQueue[tuple[Any, InferenceServerException | None]] = SimpleQueue()
    text = tritonclient.grpc.InferInput("TEXT", [1, 1], "BYTES")
    text.set_data_from_numpy(np.array([[TEXT.encode()]], np.object_))
    with tritonclient.grpc.InferenceServerClient(server.grpc) as client:
        client.start_stream(lambda result, error: results.put((result, error)))
        client.async_stream_infer(
            "tts", [text], parameters=OPTIONS, enable_empty_final_response=is_final_wanted
        )
        chunks: list[tritonclient.grpc.InferResult] = []
        while not chunks or not chunks[-1].as_numpy("IS_LAST").item():
            result, error = results.get(timeout=30)
            assert error is None, error
            chunks.append(result)
        if is_final_wanted:
            final, error = results.get(timeout=30)
            assert error is None and not final.get_response().outputs
        client.stop_stream()
    assert results.empty()
    audio = np.concatenate([chunk.as_numpy("AUDIO")[0] for chunk in chunks])
    assert difference(audio, spoken.audio) < SAME_FRAMES
