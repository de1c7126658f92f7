"""OpenAI's own SDK, the gateway's own process, and the real server."""

from __future__ import annotations

import base64
import http.client
import json
import random
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import httpx2
import openai
import pytest
from decoded_audio import decoded
from front_door import FrontDoor
from hearing import SAME_FRAMES, difference, hear, speak
from openai import OpenAI
from served import REPOSITORY, Served, served
from talkahead_client import Client
from texts import SENTENCES, prose
from waiting import eventually

from instruments.changed_repository import changed_repository

SPEECH = "/v1/audio/speech"
KEY = "sk-of-the-test"
LONG = prose(4_000)
SEED = {"seed": 5}
FORMATS = ("mp3", "opus", "aac", "flac", "wav", "pcm")
Format = Literal["mp3", "opus", "aac", "flac", "wav", "pcm"]
LOSSLESS = ("flac", "wav", "pcm")
DELAY_S = {"mp3": 0.09, "aac": 0.09}
"""By how much a codec's own frames may make speech longer, of those whose container does not say so."""
QUANTISED = 1 / 32_767
SLOT_FREE_LIMIT_S = 1.0
LATER_CHUNKS = 8


@pytest.fixture(scope="module")
def door(server: Served) -> Iterator[FrontDoor]:
    with FrontDoor(server.grpc, options=("--api-key", KEY)) as running:
        yield running


@pytest.fixture(scope="module")
def sdk(door: FrontDoor) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{door.url}/v1", api_key=KEY, max_retries=0) as connected:
        yield connected


def asked(**fields: object) -> dict[str, Any]:
    return {"model": "tts-1", "voice": "alloy", "input": SENTENCES[0], "extra_body": SEED, **fields}


def is_idle(client: Client) -> bool:
    return not client.load().details["open_streams"]


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_the_servers_speech(sdk: OpenAI, client: Client, name: Format) -> None:
    own = speak(client, SENTENCES[0], voice="heart", **SEED).audio
    response = sdk.audio.speech.create(**asked(response_format=name))
    audio, rate_hz = decoded(name, response.content)
    assert -0.01 <= len(audio) / rate_hz - len(own) / client.sample_rate_hz() <= DELAY_S.get(name, 0.01)
    if name in LOSSLESS:
        assert difference(audio, own) < SAME_FRAMES + QUANTISED


def test_what_is_usual_is_mp3(sdk: OpenAI) -> None:
    response = sdk.audio.speech.create(**asked())
    assert response.response.headers["Content-Type"] == "audio/mpeg"
    assert decoded("mp3", response.content)[1] == 24_000


@pytest.mark.parametrize("name", FORMATS)
def test_the_first_bytes_come_while_the_server_still_speaks(
    sdk: OpenAI, client: Client, name: Format
) -> None:
    with sdk.audio.speech.with_streaming_response.create(
        **asked(input=LONG, response_format=name)
    ) as response:
        assert next(response.iter_bytes(256))
        assert not is_idle(client)
    eventually(lambda: is_idle(client), bool)


def test_events_carry_the_same_speech(sdk: OpenAI, client: Client) -> None:
    own = speak(client, SENTENCES[0], voice="tenor", **SEED)
    request = asked(voice={"id": "onyx"}, response_format="pcm", stream_format="sse")
    with sdk.audio.speech.with_streaming_response.create(**request) as response:
        events = [json.loads(line.removeprefix("data: ")) for line in response.iter_lines() if line]
    *deltas, done = events
    assert {event["type"] for event in deltas} == {"speech.audio.delta"} and len(deltas) > 1
    audio, _ = decoded("pcm", b"".join(base64.b64decode(event["audio"]) for event in deltas))
    assert difference(audio, own.audio) < SAME_FRAMES + QUANTISED
    assert done["type"] == "speech.audio.done"
    assert done["usage"]["input_tokens"] == len(SENTENCES[0])
    assert done["usage"]["output_tokens"] == own.stats.frames


def test_speed_changes_the_length(sdk: OpenAI) -> None:
    usual, fast = (
        len(sdk.audio.speech.create(**asked(response_format="pcm", speed=speed)).content)
        for speed in (1.0, 1.4)
    )
    assert usual / fast == pytest.approx(1.4, rel=0.05)


@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        ("voice", "nobody", "heart, alto, tenor, alloy"),
        ("speed", 4.0, "0.7 to 1.4"),
        ("speed", 0.25, "0.7 to 1.4"),
        ("response_format", "ogg", "mp3, opus, aac, flac, wav, pcm"),
        ("stream_format", "none", "audio, sse"),
        ("input", "", "1 to 20,000 characters"),
        ("input", "a" * 20_001, "1 to 20,000 characters"),
        ("model", "whisper-1", "talkahead, tts-1"),
    ],
)
def test_a_wrong_value_is_a_bad_request(sdk: OpenAI, field: str, value: object, allowed: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        sdk.audio.speech.create(**asked(**{field: value}))
    assert caught.value.param == field and caught.value.type == "invalid_request_error"
    assert field in caught.value.message and allowed in caught.value.message


def test_the_shipped_voice_is_no_other_voices(sdk: OpenAI, tmp_path: Path) -> None:
    sample = tmp_path / "jo.wav"
    sample.write_bytes(sdk.audio.speech.create(**asked(response_format="wav")).content)
    with pytest.raises(openai.BadRequestError) as caught:
        sdk.audio.voices.create(
            name="jo", audio_sample=sample, consent="mine", extra_body={"ref_text": SENTENCES[0]}
        )
    assert caught.value.param == "audio_sample" and "recording" in caught.value.message
    print(caught.value.message)


def test_a_wrong_key_is_an_authentication_error(door: FrontDoor) -> None:
    with (
        OpenAI(base_url=f"{door.url}/v1", api_key="sk-wrong", max_retries=0) as stranger,
        pytest.raises(openai.AuthenticationError, match="this key is not accepted"),
    ):
        stranger.audio.speech.create(**asked())


def test_models_are_listed(sdk: OpenAI) -> None:
    assert "talkahead" in [model.id for model in sdk.models.list()]
    assert sdk.models.retrieve("gpt-4o-mini-tts").owned_by == "talkahead"
    with pytest.raises(openai.NotFoundError, match="whisper-1"):
        sdk.models.retrieve("whisper-1")


@pytest.mark.parametrize("name", ["pcm", "mp3"])
def test_a_client_that_leaves_frees_the_slot(sdk: OpenAI, client: Client, name: Format) -> None:
    with sdk.audio.speech.with_streaming_response.create(
        **asked(input=LONG, response_format=name)
    ) as response:
        next(response.iter_bytes(256))
        assert not is_idle(client)
    left_s = time.monotonic()
    eventually(lambda: is_idle(client), bool, limit_s=SLOT_FREE_LIMIT_S)
    print(f"slot free {1e3 * (time.monotonic() - left_s):.0f} ms after the client left")


def test_a_draining_door_finishes_what_it_speaks(server: Served, client: Client) -> None:
    with FrontDoor(server.grpc) as leaving, httpx2.Client(base_url=leaving.url, timeout=30.0) as http:
        body = {
            "model": "tts-1",
            "voice": "alloy",
            "input": LONG,
            "response_format": "pcm",
            "max_seconds": 20,
        }
        with http.stream("POST", SPEECH, json=body) as response:
            parts = response.iter_raw()
            received = len(next(parts))
            leaving.ask_to_stop()
            eventually(lambda: http.get("/health").status_code, lambda status: status == 503)
            assert http.post(SPEECH, json=body).status_code == 503
            received += sum(map(len, parts))
        assert received == 2 * 20 * client.sample_rate_hz()
        assert leaving.exit_status() == 0


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server for one stream, where one more may wait."""
    # Without a drafter, nothing is measured at the start.
    changes = {"talker.slots": "1", "talker.max_pending": "1", "talker.drafter": "none"}
    repository = changed_repository(REPOSITORY, tmp_path_factory.mktemp("small") / "models", changes)
    with served("--repository", repository, "--exit-timeout", "1") as running:
        yield running


def test_a_full_server_is_a_rate_limit_and_another_one_speaks(small: Served, server: Served) -> None:
    with (
        # First: while they start, the one stream might come to its end.
        FrontDoor(small.grpc) as narrow,
        FrontDoor(small.grpc, server.grpc) as wide,
        Client(small.grpc) as client,
        client.speak(LONG) as speaking,
    ):
        # So far on, the slot is not free between two segments: the next ones have come to the talker.
        for _ in range(LATER_CHUNKS):
            next(speaking)
        with client.speak(LONG):
            eventually(client.load, lambda load: load.queued == 1 and load.details["open_streams"] == 2)
            with OpenAI(base_url=f"{narrow.url}/v1", api_key="any", max_retries=0) as sdk:
                with pytest.raises(
                    openai.RateLimitError, match="1 streams wait for a slot already"
                ) as caught:
                    sdk.audio.speech.create(**asked())
                predicted_ms = int(
                    caught.value.message.partition("try again in about ")[2].partition(" ms")[0]
                )
                assert int(caught.value.response.headers["retry-after-ms"]) == predicted_ms > 0
                assert int(caught.value.response.headers["Retry-After"]) >= predicted_ms / 1e3
            with OpenAI(base_url=f"{wide.url}/v1", api_key="any", max_retries=0) as sdk:
                assert sdk.audio.speech.create(**asked(response_format="pcm")).content


# Requests that nobody should send.

NUM_MALFORMED = 200
GOOD = {"model": "tts-1", "voice": "alloy", "input": "Hello."}
WRONG: dict[str, tuple[Any, ...]] = {
    "input": ("", 5, None, [], {}, "a" * 20_001, "\ud800", "x\udfff", True),
    "model": ("", "gpt-5", 1, {}, None),
    "voice": ("nobody", "", 7, [], {"id": None}, {"name": "heart"}, "\ud800", "v" * 5_000),
    "response_format": ("", "ogg", "MP3", 3, ["mp3"]),
    "stream_format": ("", "json", False),
    "speed": (0, -1, 0.69, 1.41, 1e308, 10**400, True, "fast", [1], {}),
    "instructions": (1, [], {}),
    "seed": (-1, 2**63, 1.5, "x", "\ud800"),
    "temperature": (-0.1, 99, "hot", []),
    "drafter": ("", "nobody", 3),
    "chunk_frames": (0, 10**6, 0.5),
    "pitch": (1, "high"),
}


def malformed(chance: random.Random) -> bytes:
    """A body that is wrong for sure."""
    match chance.choice(["field"] * 6 + ["missing", "bytes", "cut", "huge", "deep", "array", "constant"]):
        case "field":
            field = chance.choice(sorted(WRONG))
            return json.dumps({**GOOD, field: chance.choice(WRONG[field])}).encode()
        case "missing":
            missing = chance.choice(sorted(GOOD))
            return json.dumps({name: value for name, value in GOOD.items() if name != missing}).encode()
        case "bytes":
            return b"\xff" + chance.randbytes(chance.randrange(2_000))
        case "cut":
            whole = json.dumps(GOOD).encode()
            return whole[: chance.randrange(len(whole))]
        case "huge":
            return json.dumps({**GOOD, "input": "a" * chance.randrange(1 << 20, 1 << 23)}).encode()
        case "deep":
            return b'{"input": ' + b"[" * chance.randrange(5_000, 100_000)
        case "array":
            return json.dumps(chance.choice([[], [GOOD], "Hello.", 3, None, True])).encode()
    return json.dumps({**GOOD, "speed": chance.choice([float("nan"), float("inf")])}).encode()


def no_request(chance: random.Random) -> bytes:
    """Bytes that are no HTTP, or are not all that they promise."""
    head = f"POST {SPEECH} HTTP/1.1\r\nHost: door\r\nAuthorization: Bearer {KEY}\r\n".encode()
    return chance.choice(
        [
            chance.randbytes(500) + b"\r\n\r\n",
            head[: chance.randrange(len(head))],
            head + b"Content-Length: 1000\r\n\r\n{",
            head + b"Content-Length: -5\r\n\r\n{}",
            head + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
            head + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{",
            b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
        ]
    )


def test_malformed_requests_are_refused_and_touch_nobody(
    door: FrontDoor, server: Served, client: Client
) -> None:
    text = " ".join(SENTENCES)
    alone = speak(client, text, **SEED).audio
    chance = random.Random(31)
    with client.speak(text, **SEED) as speaking:
        first = next(speaking)
        for _ in range(NUM_MALFORMED):
            refuse(door, malformed(chance))
            host, port = door.address.split(":")
            with socket.create_connection((host, int(port)), timeout=10.0) as connection:
                connection.sendall(no_request(chance))
        assert difference(hear([first, *speaking]).audio, alone) < SAME_FRAMES
    with OpenAI(base_url=f"{door.url}/v1", api_key=KEY, max_retries=0) as sdk:
        assert sdk.audio.speech.create(**asked()).content
    eventually(lambda: is_idle(client), bool)


def test_a_body_of_50_mb_is_refused_and_kept_nowhere(door: FrontDoor) -> None:
    before_mb = peak_mb(door)
    refuse(door, json.dumps({**GOOD, "input": "a" * 50_000_000}).encode())
    assert peak_mb(door) - before_mb < 10


def peak_mb(door: FrontDoor) -> float:
    """The most memory that the gateway has had so far."""
    status = Path(f"/proc/{door.process.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1_024


def refuse(door: FrontDoor, body: bytes) -> None:
    connection = http.client.HTTPConnection(door.address, timeout=30.0)
    try:
        connection.request("POST", SPEECH, body, {"Authorization": f"Bearer {KEY}"})
        response = connection.getresponse()
        said = response.read()
    finally:
        connection.close()
    assert response.status in (400, 413), (response.status, said, body[:200])
    error = json.loads(said)["error"]
    assert set(error) == {"message", "type", "param", "code"} and error["message"]
    assert error["type"] == "invalid_request_error"
