"""Sixteen streams at once: each gets its own speech, whole, in order, ended once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hearing import SAME_FRAMES, Utterance, difference, speak
from raw import RawStream, speech_request, strings, tensors_of
from served import Served
from talkahead_client import Client, StopReason
from texts import SENTENCES
from waiting import eventually

STREAMS = 16
WAITS = 1
"""The urgency of who is not refused, however slow the machine is."""
SECONDS = 2.0
SPEEDS = (1.0, 1.0, 0.8, 1.0, 1.25)


@pytest.fixture(scope="module")
def requests(client: Client) -> list[dict[str, Any]]:
    """Another text, voice, pace and seed for each."""
    voices = client.voices()
    return [
        {
            "text": text,
            "voice": voices[seed % len(voices)],
            "speed": SPEEDS[seed % len(SPEEDS)],
            "seed": seed,
            "max_seconds": SECONDS,
        }
        for seed, text in enumerate(SENTENCES[:STREAMS])
    ]


@pytest.fixture(scope="module")
def alone(client: Client, requests: list[dict[str, Any]]) -> list[Utterance]:
    return [speak(client, **request) for request in requests]


def test_each_of_sixteen_streams_gets_its_own_speech(
    client: Client, requests: list[dict[str, Any]], alone: list[Utterance]
) -> None:
    start = threading.Barrier(STREAMS)

    def speak_at_the_mark(request: dict[str, Any]) -> Utterance:
        start.wait()
        return speak(client, **request)

    with ThreadPoolExecutor(STREAMS) as pool:
        together = list(pool.map(speak_at_the_mark, requests))
    for request, own, other in zip(requests, alone, together, strict=True):
        assert other.stats.seed == request["seed"]
        assert other.stats.frames == own.stats.frames
        assert difference(other.audio, own.audio) < SAME_FRAMES
    assert len({utterance.stats.stream for utterance in together}) == STREAMS
    assert max(utterance.stats.pool_size for utterance in together) > 1


def test_raw_responses_of_sixteen_streams_are_dense_and_end_once(
    server: Served, requests: list[dict[str, Any]], alone: list[Utterance]
) -> None:
    """What the client would hide: empty chunks, a second last flag, a response after the end."""
    streams = [RawStream(server.grpc, _raw(request)) for request in requests]
    with ThreadPoolExecutor(STREAMS) as pool:
        everything = list(pool.map(lambda stream: list(stream), streams))
    for stream, responses, own in zip(streams, everything, alone, strict=True):
        stream.vanish()
        finals = [response.parameters["triton_final_response"].bool_param for response in responses]
        assert finals == [False] * (len(responses) - 1) + [True]
        chunks = [tensors_of(response) for response in responses if response.outputs]
        assert [int(chunk["CHUNK_INDEX"][0]) for chunk in chunks] == list(range(len(chunks)))
        assert [bool(chunk["IS_LAST"][0]) for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
        assert all(len(chunk["AUDIO"]) for chunk in chunks)
        assert difference(np.concatenate([chunk["AUDIO"] for chunk in chunks]), own.audio) < SAME_FRAMES


def _raw(request: dict[str, Any]) -> Any:  # noqa: ANN401
    parameters = {name: request[name] for name in ("seed", "speed", "max_seconds")}
    return speech_request(request["text"], {"VOICE": strings(request["voice"])}, parameters=parameters)


def test_more_streams_than_slots_are_all_spoken(client: Client) -> None:
    slots = int(client.load().details["slots"])

    def speak_briefly(seed: int) -> Utterance:
        return speak(client, SENTENCES[seed % len(SENTENCES)], seed=seed, max_seconds=0.5, urgency=WAITS)

    with ThreadPoolExecutor(slots + 8) as pool:
        spoken = list(pool.map(speak_briefly, range(slots + 8)))
    assert all(StopReason(utterance.stats.stop_reason) is not StopReason.RUNNING for utterance in spoken)
    eventually(lambda: client.load().details["open_streams"], lambda streams: streams == 0)
