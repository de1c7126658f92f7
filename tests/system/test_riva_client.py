"""Riva's own client, the gateway's own process, and the real server."""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import pytest
import riva.client
from decoded_audio import decoded
from front_door import FrontDoor
from hearing import SAME_FRAMES, difference, hear, speak
from riva.client import AudioEncoding, SpeechSynthesisService
from riva.client.proto import riva_tts_pb2
from served import Served
from talkahead_client import Client
from talkahead_gateway.riva_messages import SERVICE, SynthesizeSpeechRequest
from texts import SENTENCES, prose
from waiting import eventually

SEED = 5
LONG = prose(4_000)
PLAIN: dict[str, Any] = {"custom_dictionary": {}}
"""Without it, this version of the client fails by itself."""
RATE_HZ = 24_000
QUANTISED = 1 / 32_767
SLOT_FREE_LIMIT_S = 1.0
NUM_MALFORMED = 200


@pytest.fixture(scope="module")
def door(server: Served) -> Iterator[FrontDoor]:
    with FrontDoor(server.grpc, options=("--riva-port", "0")) as running:
        yield running


@pytest.fixture(scope="module")
def service(door: FrontDoor) -> Iterator[SpeechSynthesisService]:
    auth = riva.client.Auth(uri=door.riva)
    with auth.channel:
        yield SpeechSynthesisService(auth)


def asked(text: str = SENTENCES[0], **fields: Any) -> Any:  # noqa: ANN401
    """A request as a client sends it; the seed as a newer one can, whose field this one passes on."""
    seed = {"key": "seed", "value": str(SEED)}
    form = {"encoding": 1, "sample_rate_hz": RATE_HZ, "voice_name": "heart"}
    usual = {"text": text, "custom_configuration": [seed], **form}
    return SynthesizeSpeechRequest(**{**usual, **fields})


def as_rivas(request: Any) -> Any:  # noqa: ANN401
    return riva_tts_pb2.SynthesizeSpeechRequest.FromString(request.SerializeToString())


def is_idle(client: Client) -> bool:
    return not client.load().details["open_streams"]


def test_it_is_the_servers_speech(service: SpeechSynthesisService, client: Client) -> None:
    own = speak(client, SENTENCES[0], voice="heart", seed=SEED).audio
    whole = service.stub.Synthesize(as_rivas(asked())).audio
    calling = service.stub.SynthesizeOnline(as_rivas(asked()))
    pieces = [response.audio for response in calling]
    assert len(pieces) > 1 and b"".join(pieces) == whole
    assert difference(decoded("pcm", whole)[0], own) < SAME_FRAMES + QUANTISED


@pytest.mark.parametrize(
    ("encoding", "name", "rate_hz"),
    [
        (AudioEncoding.LINEAR_PCM, "pcm", 22_050),
        (AudioEncoding.LINEAR_PCM, "pcm", 16_000),
        (AudioEncoding.OGGOPUS, "opus", 48_000),
        (AudioEncoding.MULAW, "mulaw", 8_000),
    ],
)
def test_encodings_and_rates(
    service: SpeechSynthesisService, client: Client, encoding: int, name: str, rate_hz: int
) -> None:
    form = ("talkahead.alto", "en-US", encoding, rate_hz)
    responses = list(service.synthesize_online(SENTENCES[0], *form, **PLAIN))
    audio, decoded_hz = decoded(name, b"".join(response.audio for response in responses), rate_hz)
    assert len(responses) > 1 and decoded_hz == rate_hz
    usual_s = len(speak(client, SENTENCES[0], voice="alto").audio) / client.sample_rate_hz()
    assert len(audio) / rate_hz == pytest.approx(usual_s, rel=0.2)
    assert np.abs(audio).max() > 0.1


def test_voices_are_told_as_rivas_clients_read_them(service: SpeechSynthesisService, client: Client) -> None:
    request = riva_tts_pb2.RivaSynthesisConfigRequest()
    [config] = service.stub.GetRivaSynthesisConfig(request).model_config
    assert config.parameters["language_code"] == "en-US"
    subvoices = [part.split(":")[0] for part in config.parameters["subvoices"].split(",")]
    assert subvoices == list(client.voices())
    name = f"{config.parameters['voice_name']}.{subvoices[-1]}"
    assert service.synthesize("Yes.", name, sample_rate_hz=16_000, **PLAIN).audio


def test_a_cancelled_call_frees_the_slot(service: SpeechSynthesisService, client: Client) -> None:
    calling = service.synthesize_online(LONG, "heart", sample_rate_hz=RATE_HZ, **PLAIN)
    assert next(calling).audio
    assert not is_idle(client)
    calling.cancel()
    left_s = time.monotonic()
    eventually(lambda: is_idle(client), bool, limit_s=SLOT_FREE_LIMIT_S)
    print(f"slot free {1e3 * (time.monotonic() - left_s):.0f} ms after the call was cancelled")


# Requests that nobody should send.

WRONG: dict[str, tuple[Any, ...]] = {
    "text": ("", "a" * 20_001, " \n", "\0"),
    "encoding": (5, -1, 2**31 - 1),
    "sample_rate_hz": (1, -8_000, 11_025, 2**31 - 1),
    "voice_name": ("nobody", "talkahead.", "talkahead.nobody", "v" * 5_000),
    "language_code": ("de-DE", "en", "\n"),
    "custom_dictionary": ("tomato  x", "\0"),
    "zero_shot_data": ({"audio_prompt": b"RIFF"}, {"quality": 20}),
    "custom_configuration": tuple(
        [{"key": key, "value": value}]
        for key, value in (
            ("", ""),
            ("pitch", "high"),
            ("seed", "-1"),
            ("seed", "9" * 400),
            ("seed", "9" * 5_000),
            ("speed", "nan"),
            ("speed", "4"),
            ("pin_draft", "yes"),
            ("drafter", "nobody"),
            ("temperature", "hot"),
        )
    ),
}
REFUSED = (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED)


def malformed(chance: random.Random) -> bytes:
    """A request that is wrong for sure, by what it says or by its bytes."""
    match chance.choice(["field"] * 5 + ["bytes", "cut", "huge"]):
        case "field":
            field = chance.choice(sorted(WRONG))
            return bytes(asked(**{field: chance.choice(WRONG[field])}).SerializeToString())
        case "bytes":
            return b"\xff" * 11 + chance.randbytes(chance.randrange(2_000))
        case "cut":
            return bytes(asked().SerializeToString()[: chance.randrange(2, len(SENTENCES[0]))])
    return bytes(asked("a" * chance.randrange(1 << 20, 1 << 22)).SerializeToString())


def no_call(chance: random.Random) -> bytes:
    """Bytes that are no HTTP/2, or not all of it."""
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    return chance.choice(
        [chance.randbytes(500), preface[: chance.randrange(len(preface))], preface + chance.randbytes(200)]
    )


def test_malformed_requests_are_refused_and_touch_nobody(
    door: FrontDoor, service: SpeechSynthesisService, server: Served, client: Client
) -> None:
    text = " ".join(SENTENCES)
    alone = speak(client, text, seed=SEED).audio
    chance = random.Random(31)
    host, port = str(door.riva).split(":")
    with client.speak(text, seed=SEED) as speaking, grpc.insecure_channel(door.riva) as channel:
        first = next(speaking)
        # As bytes, which are neither made nor read here.
        whole = channel.unary_unary(f"/{SERVICE}/Synthesize")
        online = channel.unary_stream(f"/{SERVICE}/SynthesizeOnline")
        for number in range(NUM_MALFORMED):
            refuse(online if number % 2 else whole, malformed(chance))
            with socket.create_connection((host, int(port)), timeout=10.0) as connection:
                connection.sendall(no_call(chance))
        assert difference(hear([first, *speaking]).audio, alone) < SAME_FRAMES
    assert service.synthesize("Yes.", "heart", **PLAIN).audio
    eventually(lambda: is_idle(client), bool)


def refuse(call: Any, request: bytes) -> None:  # noqa: ANN401
    with pytest.raises(grpc.RpcError) as caught:
        answer = call(request, timeout=10.0)
        list(answer if hasattr(answer, "__next__") else [answer])
    assert caught.value.code() in REFUSED and caught.value.details(), (caught.value, request[:200])
