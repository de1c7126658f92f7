"""A request is sent again where its server goes away before it has spoken, and never after."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from fake_triton import FakeStream, FakeTriton, Listen, Response, Script, chunk, final, plays, speaks
from talkahead_client import (
    Client,
    InvalidRequest,
    ServerBusy,
    ServerUnavailable,
    SpeechError,
    StreamBroken,
    patience,
)
from talkahead_client.errors import from_status
from talkahead_client.wire import ROUTING_KEY, call_metadata

GOING = "in ensemble 'tts', UNAVAILABLE: the server is shutting down; ask another"


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "RETRY_PAUSES_S", (0.001,))


def fails(times: int, failure: Script, then: Script) -> Script:
    """A script of a server that fails so often first."""
    left = iter(range(times))

    def script(stream: FakeStream) -> Iterator[Any]:
        yield from (then if next(left, None) is None else failure)(stream)

    return script


def refuses(message: str) -> Script:
    return plays(Response(error_message=message))


def ends(code: grpc.StatusCode, details: str) -> Script:
    def script(stream: FakeStream) -> Iterator[Any]:
        stream.fail(code, details)
        yield

    return script


@pytest.mark.parametrize(
    "failure",
    [
        refuses(GOING),
        ends(grpc.StatusCode.UNAVAILABLE, "Socket closed"),
        ends(grpc.StatusCode.UNKNOWN, "Stream removed (Data frame with END_STREAM flag received)"),
        ends(grpc.StatusCode.CANCELLED, "RST_STREAM (Received RST_STREAM with error code 8)"),
    ],
    ids=["says so", "is gone", "behind a proxy", "cut by a proxy"],
)
def test_a_server_that_goes_away_before_it_speaks_is_asked_again(
    triton: FakeTriton, listen: Listen, failure: Script
) -> None:
    triton.script = fails(2, failure, speaks(3))
    with pytest.raises(ServerUnavailable):
        listen("Hello.", retries=0)
    assert [chunk.index for chunk in listen("Hello.", retries=1)] == [0, 1, 2]
    asked = [(stream.request.id, stream.text) for stream in triton.streams[1:]]
    assert len(asked) == 2 and len(set(asked)) == 1


def test_it_is_not_asked_more_often_than_it_was_told(triton: FakeTriton, listen: Listen) -> None:
    triton.script = refuses(GOING)
    with pytest.raises(ServerUnavailable, match="the server is shutting down"):
        listen("Hello.", retries=3)
    assert len(triton.streams) == 4


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (plays(chunk(0), Response(error_message=GOING)), ServerUnavailable),
        (refuses("RESOURCE_EXHAUSTED: 64 streams wait"), ServerBusy),
        (refuses("INVALID_ARGUMENT: TEXT"), InvalidRequest),
        (plays(final()), StreamBroken),
    ],
    ids=["has spoken", "full", "bad request", "broken"],
)
def test_for_nothing_else_it_is_asked_again(
    triton: FakeTriton, listen: Listen, failure: Script, error: type[SpeechError]
) -> None:
    triton.script = failure
    with pytest.raises(error):
        listen("Hello.", retries=3)
    assert len(triton.streams) == 1


def test_who_leaves_meanwhile_is_not_spoken_for(triton: FakeTriton, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "RETRY_PAUSES_S", (0.2,))
    triton.script = fails(1, refuses(GOING), speaks(3))
    with Client(triton.address) as client:
        speech = client.speak("Hello.", retries=5)
        assert triton.streams or triton.arrived.wait(2)
        speech.close()
    assert len(triton.streams) == 1


def test_a_stream_and_its_cancel_say_which_they_are_about(triton: FakeTriton, listen: Listen) -> None:
    listen("Hello.", request_id="mine")
    assert triton.metadata[ROUTING_KEY] == "mine"
    with Client(triton.address) as client:
        client.cancel(request_id="theirs")
    assert triton.metadata[ROUTING_KEY] == "theirs"


def test_any_request_id_is_ascii_there() -> None:
    assert call_metadata("Grüße, 1") == ((ROUTING_KEY, "Gr%C3%BC%C3%9Fe%2C%201"),)
    assert call_metadata(None) == ()


@pytest.mark.parametrize("code", ["UNKNOWN", "CANCELLED", "INTERNAL", "UNAVAILABLE"])
def test_a_connection_that_is_cut_is_no_ones_cancel(code: str) -> None:
    details = "Stream removed (RST_STREAM (Received RST_STREAM with error code 8))"
    assert type(from_status(code, details, is_speaking=True)) is StreamBroken
    assert type(from_status(code, details, is_speaking=False)) is ServerUnavailable


@pytest.mark.parametrize(
    "details",
    [
        "[request id: x] Server is stopping, scheduler for model has stopped accepting new requests",
        "Request for unknown model: 'tts' has no available versions",
    ],
)
def test_a_server_that_stops_is_away(details: str) -> None:
    """In Triton's own words, which come without a code."""
    assert type(from_status("UNKNOWN", details, is_speaking=False)) is ServerUnavailable
