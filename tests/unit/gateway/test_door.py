"""The door on loopback before a server that plays a script."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
import httpx2
import numpy as np
import pytest
from answering import Open, metric
from certificates import make_root, make_signed
from decoded_audio import decoded
from fake_triton import (
    SAMPLES,
    FakeStream,
    FakeTriton,
    Response,
    Script,
    chunk,
    plays,
    speaks,
    speaks_on,
    stalls,
)
from talkahead_client import AudioChunk, tls_credentials
from talkahead_gateway import servers
from talkahead_gateway.encoding import Encoder
from talkahead_gateway.speech_door import SpeechLimits
from talkahead_gateway.speech_request import MODELS

SPEECH = "/v1/audio/speech"
ASKED = {"input": "Hello.", "model": "tts-1", "voice": "slt", "response_format": "pcm"}
BUSY = "in ensemble 'tts', RESOURCE_EXHAUSTED: 5 streams wait for a slot already; try again in about 1234 ms"
LATE = "RESOURCE_EXHAUSTED: each would get less than it needs"


def fails(code: grpc.StatusCode, message: str, num_chunks: int = 0) -> Script:
    def script(stream: FakeStream) -> Iterator[object]:
        for index in range(num_chunks):
            yield chunk(index)
        stream.fail(code, message)

    return script


def says(message: str) -> Script:
    return plays(Response(error_message=message))


@pytest.fixture
def other() -> Iterator[FakeTriton]:
    server = FakeTriton()
    yield server
    server.close()


def closed_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return f"127.0.0.1:{taken.getsockname()[1]}"


async def test_nobody_waits_while_another_is_encoded(
    open_door: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_go_on = threading.Event()
    begun: asyncio.Queue[None] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    encode = Encoder.encode

    def slow(encoder: Encoder, one: AudioChunk) -> bytes:
        loop.call_soon_threadsafe(begun.put_nowait, None)
        assert may_go_on.wait(10.0)
        return encode(encoder, one)

    monkeypatch.setattr(Encoder, "encode", slow)
    async with open_door() as door:
        asking = asyncio.create_task(door.http.post(SPEECH, json={**ASKED, "response_format": "flac"}))
        await begun.get()
        assert (await door.http.get("/health")).status_code == 200
        may_go_on.set()
        heard, _ = decoded("flac", (await asking).content)
    ramps = [np.linspace(0.1, 0.1 + 0.05 * index, SAMPLES) for index in range(3)]
    assert np.abs(heard - np.concatenate(ramps)).max() < 1e-4


async def test_speech_comes_whole(open_door: Open, triton: FakeTriton) -> None:
    async with open_door() as door:
        response = await door.http.post(SPEECH, json=ASKED)
        assert response.status_code == 200 and response.headers["Content-Type"] == "audio/pcm"
        assert len(response.content) == 3 * 2 * SAMPLES
        assert triton.streams[0].text == "Hello."
        assert await metric(door, f'talkahead_gateway_requests_total{{route="{SPEECH}",status="200"}}') == 1
        assert await metric(door, f'talkahead_gateway_first_byte_seconds_count{{route="{SPEECH}"}}') == 1
        assert await metric(door, "talkahead_gateway_open_streams") == 0


@pytest.mark.parametrize("stream_format", ["audio", "sse"])
async def test_the_first_bytes_come_before_the_last_chunk(
    open_door: Open, triton: FakeTriton, stream_format: str
) -> None:
    triton.script = stalls(1)
    asked = {**ASKED, "stream_format": stream_format}
    async with open_door() as door, door.http.stream("POST", SPEECH, json=asked) as response:
        assert await anext(response.aiter_raw())
        assert await metric(door, "talkahead_gateway_open_streams") == 1


async def test_a_client_that_leaves_takes_its_stream_along(open_door: Open, triton: FakeTriton) -> None:
    triton.script = stalls(1)
    async with open_door() as door:
        async with door.http.stream("POST", SPEECH, json=ASKED) as response:
            await anext(response.aiter_raw())
        assert await asyncio.to_thread(triton.streams[0].cancelled.wait, 5.0)


async def test_a_client_that_leaves_before_the_first_chunk_does_so_too(
    open_door: Open, triton: FakeTriton
) -> None:
    triton.script = stalls(0)
    async with open_door() as door:
        asking = asyncio.create_task(door.http.post(SPEECH, json=ASKED))
        assert await asyncio.to_thread(triton.arrived.wait, 5.0)
        asking.cancel()
        assert await asyncio.to_thread(triton.streams[0].cancelled.wait, 5.0)


async def test_a_client_that_takes_nothing_is_left(open_door: Open, triton: FakeTriton) -> None:
    triton.script = speaks_on
    async with open_door(limits=SpeechLimits(reader_s=0.2)) as door:
        body = json.dumps(ASKED)
        _, writer = await asyncio.open_connection("127.0.0.1", door.port, limit=1)
        writer.write(
            f"POST {SPEECH} HTTP/1.1\r\nHost: door\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
        )
        await writer.drain()
        assert await asyncio.to_thread(triton.arrived.wait, 5.0)
        assert await asyncio.to_thread(triton.streams[0].cancelled.wait, 5.0)
        writer.close()


@pytest.mark.parametrize("stream_format", ["audio", "sse"])
async def test_a_failure_after_the_first_byte_cuts_the_connection(
    open_door: Open, triton: FakeTriton, stream_format: str
) -> None:
    triton.script = fails(grpc.StatusCode.INTERNAL, "the vocoder failed on chunk 2", num_chunks=2)
    async with open_door() as door:
        with pytest.raises(httpx2.RemoteProtocolError, match="incomplete chunked read"):
            await door.http.post(SPEECH, json={**ASKED, "stream_format": stream_format})
        assert await metric(door, f'talkahead_gateway_cut_responses_total{{route="{SPEECH}"}}') == 1
        triton.script = speaks(3)
        assert (await door.http.post(SPEECH, json=ASKED)).status_code == 200


@pytest.mark.parametrize(
    ("said", "status", "param", "message"),
    [
        (
            "in ensemble 'tts', INVALID_ARGUMENT: TEXT: '' is not accepted; allowed: 1 to 20,000 characters",
            400,
            "input",
            "input: '' is not accepted; allowed: 1 to 20,000 characters",
        ),
        ("INVALID_ARGUMENT: speed: 4.0 is not accepted; allowed: 1", 400, "speed", "speed: 4.0 is"),
        ("INTERNAL: the talker failed", 500, None, "the talker failed"),
        ("UNAVAILABLE: the server is shutting down", 503, None, "shutting down"),
        ("CANCELLED: deadline_ms: 1 ms have passed", 503, None, "deadline_ms: 1 ms have passed"),
    ],
)
async def test_what_the_server_refuses_is_openais_error(
    open_door: Open, triton: FakeTriton, said: str, status: int, param: str | None, message: str
) -> None:
    triton.script = says(said)
    async with open_door() as door:
        response = await door.http.post(SPEECH, json=ASKED)
    error = response.json()["error"]
    assert response.status_code == status and set(error) == {"message", "type", "param", "code"}
    assert error["param"] == param and message in error["message"]
    assert error["type"] == ("server_error" if status >= 500 else "invalid_request_error")


@pytest.mark.parametrize(("said", "after_ms"), [(BUSY, "1234"), (LATE, "42")])
async def test_a_full_server_says_when_to_try_again(
    open_door: Open, triton: FakeTriton, said: str, after_ms: str
) -> None:
    """As its refusal predicts it, or else its load (41.5 ms)."""
    triton.script = says(said)
    async with open_door() as door:
        response = await door.http.post(SPEECH, json=ASKED)
    assert response.status_code == 429 and response.json()["error"]["type"] == "rate_limit_error"
    assert response.headers["retry-after-ms"] == after_ms
    assert response.headers["Retry-After"] == ("2" if said is BUSY else "1")


async def test_another_server_is_tried(open_door: Open, triton: FakeTriton, other: FakeTriton) -> None:
    triton.script = says(BUSY)
    async with open_door(closed_port(), triton.address, other.address) as door:
        assert (await door.http.post(SPEECH, json=ASKED)).status_code == 200
        assert len(triton.streams) == len(other.streams) == 1
        other.script = says("RESOURCE_EXHAUSTED: full; try again in about 90 ms")
        response = await door.http.post(SPEECH, json=ASKED)
        assert (response.status_code, response.headers["retry-after-ms"]) == (429, "90")


async def test_what_nobody_can_serve_is_not_tried_twice(
    open_door: Open, triton: FakeTriton, other: FakeTriton
) -> None:
    triton.script = says("INVALID_ARGUMENT: speed: 9.0 is not accepted; allowed: less")
    async with open_door(triton.address, other.address) as door:
        assert (await door.http.post(SPEECH, json=ASKED)).status_code == 400
    assert not other.streams


async def test_the_server_that_speaks_least_is_asked(
    open_door: Open, triton: FakeTriton, other: FakeTriton
) -> None:
    triton.script = other.script = stalls(1)
    async with open_door(triton.address, other.address) as door:
        for _ in range(4):
            response = await door.http.send(door.http.build_request("POST", SPEECH, json=ASKED), stream=True)
            assert response.status_code == 200
        assert len(triton.streams) == len(other.streams) == 2


async def test_no_server(open_door: Open) -> None:
    async with open_door(closed_port()) as door:
        assert (await door.http.post(SPEECH, json=ASKED)).status_code == 503
        assert (await door.http.get("/v1/audio/voices")).status_code == 503
        health = await door.http.get("/health")
        assert health.status_code == 503 and health.json()["status"] == "no server speaks"
        assert (await door.http.get("/")).status_code == 200


@pytest.mark.needs("openssl")
async def test_servers_may_have_tls(open_door: Open, tmp_path: Path) -> None:
    root = make_root(tmp_path)
    theirs, ours = (make_signed(tmp_path, name, root) for name in ("server", "gateway"))
    own = [(theirs.key.read_bytes(), theirs.certificate.read_bytes())]
    server = FakeTriton(0, grpc.ssl_server_credentials(own, root.certificate.read_bytes(), True))
    known = tls_credentials(root.certificate, ours.certificate, ours.key)
    for credentials, status in ((known, 200), (tls_credentials(root.certificate), 503), (None, 503)):
        async with open_door(server.address, credentials=credentials) as door:
            assert (await door.http.post(SPEECH, json=ASKED)).status_code == status
    server.close()


async def test_health_tells_of_each_server(open_door: Open, triton: FakeTriton) -> None:
    away = closed_port()
    async with open_door(away, triton.address) as door:
        health = await door.http.get("/health")
    assert health.status_code == 200
    assert health.json()["servers"] == {
        away: None,
        triton.address: {"active": 2, "queued": 1, "predicted_first_chunk_ms": 41.5},
    }


async def test_who_does_not_speak_is_not_well(
    open_door: Open, triton: FakeTriton, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though it tells its load: its talker hangs."""
    monkeypatch.setattr(servers, "HEALTH_LIMIT_S", 0.3)
    triton.script = stalls(0)
    async with open_door() as door:
        health = await door.http.get("/health")
        assert health.status_code == 503 and health.json()["servers"] == {triton.address: None}
        assert await asyncio.to_thread(triton.streams[0].cancelled.wait, 5.0)
    assert triton.streams[0].request.parameters["health_check"].bool_param


@pytest.mark.parametrize(
    "said", [BUSY, "INVALID_ARGUMENT: VOICE: there is none", "DEADLINE_EXCEEDED: deadline_ms: 1500 ms passed"]
)
async def test_who_is_full_is_well(open_door: Open, triton: FakeTriton, said: str) -> None:
    triton.script = says(said)
    async with open_door() as door:
        assert (await door.http.get("/health")).status_code == 200


async def test_many_who_ask_for_its_health_are_told_the_same(open_door: Open, triton: FakeTriton) -> None:
    async with open_door() as door:
        asked = await asyncio.gather(*(door.http.get("/health") for _ in range(10)))
        assert [one.status_code for one in asked] == [200] * 10
    assert len(triton.streams) == 1


async def test_models_and_voices_are_listed(open_door: Open) -> None:
    async with open_door() as door:
        listed = (await door.http.get("/v1/models")).json()
        assert [model["id"] for model in listed["data"]] == list(MODELS)
        assert (await door.http.get("/v1/models/talkahead")).json()["object"] == "model"
        missing = await door.http.get("/v1/models/whisper-1")
        assert missing.status_code == 404 and missing.json()["error"]["code"] == "model_not_found"
        voices = (await door.http.get("/v1/audio/voices")).json()
    assert voices["voices"] == ["slt", "rms"] and voices["aliases"]["onyx"] == "slt"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/v2", 404), ("POST", "/v1/audio/translations", 404), ("GET", SPEECH, 405), ("PUT", "/", 405)],
)
async def test_what_is_not_here(open_door: Open, method: str, path: str, status: int) -> None:
    async with open_door() as door:
        response = await door.http.request(method, path)
    assert response.status_code == status and f"{method} {path}" in response.json()["error"]["message"]


async def test_a_body_that_is_too_large(open_door: Open) -> None:
    async with open_door(limits=SpeechLimits(body_bytes=1000)) as door:
        response = await door.http.post(SPEECH, json={**ASKED, "input": "a" * 5_000_000})
        assert response.status_code == 413 and "up to 1000 bytes" in response.json()["error"]["message"]


async def test_a_body_that_does_not_come(open_door: Open) -> None:
    async with open_door(limits=SpeechLimits(request_s=0.1)) as door:
        reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
        writer.write(f"POST {SPEECH} HTTP/1.1\r\nHost: door\r\nContent-Length: 100\r\n\r\n{{".encode())
        assert await reader.readline() == b"HTTP/1.1 408 Request Timeout\r\n"
        writer.close()


async def test_half_a_surrogate_pair_is_refused_in_ascii(open_door: Open) -> None:
    async with open_door() as door:
        for field in ("input", "voice", "seed"):
            response = await door.http.post(SPEECH, content=json.dumps({**ASKED, field: "\ud800"}))
            assert response.status_code == 400 and response.json()["error"]["param"] == field


async def test_keys(open_door: Open) -> None:
    async with open_door(api_keys=("one",)) as door:
        for path in ("/v1/models", "/v1/nothing"):
            refused = await door.http.get(path)
            assert refused.status_code == 401 and refused.json()["error"]["code"] == "invalid_api_key"
        assert (await door.http.post(SPEECH, json=ASKED)).status_code == 401
        own = {"Authorization": "Bearer one"}
        assert (await door.http.post(SPEECH, json=ASKED, headers=own)).status_code == 200
        assert (await door.http.get("/health")).status_code == 200


async def test_streams_per_key(open_door: Open, triton: FakeTriton) -> None:
    triton.script = stalls(1)
    own = {"Authorization": "Bearer one"}
    async with open_door(api_keys=("one", "two"), streams_per_key=1) as door:
        async with door.http.stream("POST", SPEECH, json=ASKED, headers=own):
            assert (await door.http.post(SPEECH, json=ASKED, headers=own)).status_code == 429
            other = {"Authorization": "Bearer two"}
            async with door.http.stream("POST", SPEECH, json=ASKED, headers=other) as response:
                assert response.status_code == 200
        assert await asyncio.to_thread(triton.streams[0].cancelled.wait, 5.0)


async def test_characters_per_key(open_door: Open, triton: FakeTriton) -> None:
    """What a server refused does not count."""
    own = {"Authorization": "Bearer one"}
    async with open_door(api_keys=("one",), characters_per_key=10) as door:
        triton.script, spoken = says(BUSY), triton.script
        assert (await door.http.post(SPEECH, json=ASKED, headers=own)).status_code == 429
        triton.script = spoken
        assert (await door.http.post(SPEECH, json=ASKED, headers=own)).status_code == 200
        refused = await door.http.post(SPEECH, json=ASKED, headers=own)
        assert (
            refused.status_code == 429
            and "10 characters of this minute" in refused.json()["error"]["message"]
        )
        assert 0 < int(refused.headers["retry-after-ms"]) <= 12_000
    assert len(triton.streams) == 2


@pytest.mark.parametrize(
    ("allowed", "answer"), [((), None), (("https://a.example",), "https://a.example"), (("*",), "*")]
)
async def test_pages_of_other_sites(open_door: Open, allowed: tuple[str, ...], answer: str | None) -> None:
    asking = {"Origin": "https://a.example", "Access-Control-Request-Method": "POST"}
    async with open_door(allow_origins=allowed, api_keys=("one",)) as door:
        preflight = await door.http.options(SPEECH, headers=asking)
    assert preflight.headers.get("Access-Control-Allow-Origin") == answer
    assert (preflight.status_code == 200) == bool(allowed)


async def test_a_draining_door_lets_streams_finish_and_nothing_in(
    open_door: Open, triton: FakeTriton
) -> None:
    triton.script = stalls(1)
    async with open_door(api_keys=()) as door:
        async with door.http.stream("POST", SPEECH, json=ASKED) as response:
            body = response.aiter_raw()
            await anext(body)
            door.server.stop()
            assert (await door.http.post(SPEECH, json=ASKED)).status_code == 503
            assert (await door.http.get("/health")).status_code == 503
            assert not door.running.done()
        await door.running


async def test_streams_that_do_not_finish_are_cut(open_door: Open, triton: FakeTriton) -> None:
    triton.script = stalls(1)
    async with open_door(drain_timeout_s=0.1) as door:
        async with door.http.stream("POST", SPEECH, json=ASKED) as response:
            door.server.stop()
            with pytest.raises(httpx2.RemoteProtocolError):
                await response.aread()
        await door.running
    assert triton.streams[0].cancelled.is_set()
