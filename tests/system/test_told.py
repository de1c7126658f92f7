"""What a server tells of a request, in its log and to a collector of traces."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from collector import Collector
from hearing import speak
from served import Served, served
from talkahead_client import Client, InvalidRequest
from texts import SENTENCES

LIMIT_S = 20.0
"""Triton hands spans on every few seconds."""


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with Collector() as running:
        yield running


@pytest.fixture(scope="module")
def told(collector: Collector) -> Iterator[Served]:
    """It has spoken for one request, and refused another."""
    options = ("--traces", collector.url, "--log-format", "json", "--log-level", "info")
    with served("--exit-timeout", "1", *options) as server, Client(server.grpc) as client:
        speak(client, SENTENCES[0], request_id="call 7", max_seconds=2.0)
        with pytest.raises(InvalidRequest):
            speak(client, SENTENCES[0], request_id="call 8", temperature=99.0)
        yield server


def test_every_line_of_the_log_is_json_and_a_streams_end_carries_its_request(told: Served) -> None:
    told.wait_for(r"request 'call 7'\) ended")
    lines = [line for line in told.log.splitlines() if not line.startswith("ready ")]
    entries: list[dict[str, Any]] = [json.loads(line) for line in lines]
    assert all({"time", "level", "message", "source"} <= set(entry) for entry in entries)
    (ended,) = [entry for entry in entries if entry.get("request_id") == "call 7" and "ending" in entry]
    assert ended["ending"] in ("end_of_speech", "max_seconds")
    assert 0 < ended["first_chunk_s"] <= ended["seconds"] and ended["frames"] > 0
    assert SENTENCES[0] not in told.log


def test_a_trace_has_the_request_and_its_parts(told: Served, collector: Collector) -> None:
    parts = {"tts", "frontend", "encoder", "talker", "vocoder"}
    spans = collector.await_spans(parts | {"InferRequest"}, LIMIT_S)
    [ensemble] = [span for span in spans if span.name == "tts" and span.request_id == "call 7"]
    ours = [span for span in spans if span.trace == ensemble.trace]
    assert {span.service for span in ours} == {"talkahead"}
    assert {span.name for span in ours if span.parent == ensemble.id} == parts - {"tts"}
    [root] = [span for span in ours if span.id == ensemble.parent]
    assert root.name == "InferRequest" and not root.parent
    assert all(root.start_ns <= span.start_ns <= span.end_ns <= root.end_ns for span in ours)
