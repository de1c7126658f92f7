"""`control`, and requests to it that it cannot serve."""

from __future__ import annotations

import json

import grpc
import numpy as np
import pytest
from raw import Tensors, infer, model_request, strings
from served import REPOSITORY, Served
from talkahead_client import Client, InvalidRequest


def test_voices_are_those_that_the_codec_makes_of_the_talkers(client: Client) -> None:
    trained = json.loads((REPOSITORY / "encoder" / "1" / "encoder.json").read_text())["voices"]
    made = json.loads((REPOSITORY / "vocoder" / "1" / "voices.json").read_text())
    assert client.voices() == tuple(voice["name"] for voice in made)
    assert len(made) >= 3 and {voice["speaker"] for voice in made} <= set(trained)


def test_idle_server_reports_free_slots_and_a_short_wait(client: Client) -> None:
    load = client.load()
    assert (load.active, load.queued) == (0, 0)
    assert load.details["slots"] >= 16
    assert 0 < load.predicted_first_chunk_ms < 10_000


def test_cancel_of_a_stream_that_is_not_there_meets_none(client: Client) -> None:
    assert client.cancel(stream=12345) == 0
    assert client.cancel(request_id="nobody's") == 0


def test_cancel_of_no_stream_in_particular_is_refused(server: Served, client: Client) -> None:
    with pytest.raises(InvalidRequest):
        client.cancel()
    assert "STREAM or REQUEST_ID" in refused(server, {"COMMAND": strings("cancel")})


@pytest.mark.parametrize(
    ("tensors", "says"),
    [
        ({"COMMAND": strings("dance")}, ("COMMAND", "'dance'", "cancel, voices, load")),
        ({"COMMAND": strings("")}, ("COMMAND", "''", "cancel, voices, load")),
        ({"COMMAND": strings(b"\xff")}, ("COMMAND", r"\xff", "UTF-8")),
        ({"COMMAND": strings("cancel"), "STREAM": np.ones((1, 1), np.float32)}, ("STREAM", "FP32", "INT64")),
        ({"COMMAND": strings("cancel"), "STREAM": np.ones((1, 2), np.int64)}, ("STREAM", "[1,2]", "[-1,1]")),
        ({}, ("COMMAND",)),
    ],
    ids=["unknown", "empty", "no UTF-8", "wrong dtype", "wrong shape", "missing"],
)
def test_bad_command_is_refused_with_what_is_allowed(
    tensors: Tensors, says: tuple[str, ...], server: Served
) -> None:
    text = refused(server, tensors)
    assert [part for part in says if part not in text] == [], text


def refused(server: Served, tensors: Tensors) -> str:
    with pytest.raises(grpc.RpcError) as caught:
        infer(server.grpc, model_request("control", tensors))
    return str(caught.value.details())
