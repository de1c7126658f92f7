"""What the probe takes for health, against a server that answers what a test says."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from talkahead.config import SETTINGS
from talkahead.launcher.probe import main

ROOT = Path(__file__).parents[3]
TALKERS_PATIENCE_S = 2.0
"""A talker whose codec hangs answers so much later than its deadline_ms."""


class Page(BaseHTTPRequestHandler):
    answer = ""
    asked: ClassVar[list[dict[str, Any]]] = []
    may_answer = threading.Event()

    def do_POST(self) -> None:
        self.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.may_answer.wait()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.answer.encode())

    def log_message(self, *arguments: object) -> None:
        """Silent."""


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(Page, "asked", [])
    monkeypatch.setattr(Page, "answer", "data: {}\n\n")
    Page.may_answer.set()
    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def error(message: str) -> str:
    return json.dumps({"error": message})


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        ("data: {}\n\n", 0),
        (error("RESOURCE_EXHAUSTED: no room"), 0),
        (error("CANCELLED: deadline_ms: 1125 ms have passed"), 0),
        (error("INVALID_ARGUMENT: VOICE: None is not accepted"), 0),
        (error("UNAVAILABLE: the server is shutting down"), 1),
        (error("Stub process 'talker_0_0' is not healthy."), 1),
    ],
)
def test_a_server_that_is_full_is_well_and_one_that_drains_or_is_dead_is_not(
    port: int, answer: str, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Page, "answer", answer)
    assert main([f"--http-port={port}"]) == status
    told = capsys.readouterr().err
    assert (json.loads(answer)["error"] in told) if status else not told


def test_what_it_asks_for_is_short_and_ends_before_its_patience_does(port: int) -> None:
    for deadline_s in (0.5, 1.5, 3.5):
        assert main([f"--http-port={port}", f"--deadline={deadline_s}"]) == 0
        asked = Page.asked[-1]
        assert set(asked) - {"TEXT"} <= set(SETTINGS)
        assert asked["max_seconds"] <= 0.1 and asked["urgency"] == 3
        answered_s = asked["deadline_ms"] / 1e3
        assert answered_s < deadline_s < answered_s + TALKERS_PATIENCE_S


def test_who_does_not_answer_is_not_well(port: int, capsys: pytest.CaptureFixture[str]) -> None:
    Page.may_answer.clear()
    try:
        assert main([f"--http-port={port}", "--deadline=0.2"]) == 1
    finally:
        Page.may_answer.set()
    assert "timed out" in capsys.readouterr().err


def test_it_loads_little() -> None:
    """It is started every second."""
    script = "import sys, talkahead.launcher.probe; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, encoding="utf-8")
    assert not {"numpy", "torch", "grpc", "talkahead.launcher.command"} & set(loaded.stdout.split())
