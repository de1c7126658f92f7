from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest
from talkahead.launcher.addresses import Addresses
from talkahead.launcher.health_check import HealthCheck


class Pages(BaseHTTPRequestHandler):
    answer = "data: {}\n\n"
    voices: ClassVar[dict[str, object]] = {"voices": ["one"], "sample_rate_hz": 24_000}
    may_answer = threading.Event()

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = self.answer
        if self.path == "/v2/models/control/generate":
            assert request == {"COMMAND": "voices"}
            answer = json.dumps({"RESULT": json.dumps(self.voices)})
        else:
            assert (self.path, request["TEXT"]) == ("/v2/models/tts/generate_stream", "Ready.")
            assert ("REFERENCE_TEXT" in request) == (not self.voices["voices"])
            assert self.may_answer.wait(10)
            wanted = 0 if self.voices["voices"] else 36_000
            assert len(request.get("REFERENCE_AUDIO", [])) == wanted
        self.send_response(200)
        self.end_headers()
        self.wfile.write(answer.encode())

    def log_message(self, *arguments: object) -> None:
        """Silent."""


@pytest.fixture
def check() -> Iterator[HealthCheck]:
    Pages.may_answer.set()
    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = server.server_address[1]
        check = HealthCheck(Addresses("127.0.0.1", 0, port, 0))
        check.results.settimeout(10)
        yield check
        check.close()
        server.shutdown()


@pytest.mark.parametrize(
    ("answer", "failure"),
    [
        ("data: {}\n\n", ""),
        (json.dumps({"error": "Stub process 'x' is not healthy."}), "Stub process 'x' is not healthy."),
    ],
)
def test_a_syllable_says_what_became_of_it(
    check: HealthCheck, answer: str, failure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Pages, "answer", answer)
    for _ in range(2):
        check.start()
        assert check.result() == failure


def test_where_there_are_no_voices_it_is_spoken_like_a_recording(
    check: HealthCheck, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Pages, "voices", {"voices": [], "sample_rate_hz": 24_000})
    check.start()
    assert check.result() == ""


def test_a_server_that_is_gone_is_a_failure() -> None:
    check = HealthCheck(Addresses("127.0.0.1", 0, 1, 0))
    check.results.settimeout(10)
    check.start()
    assert "ConnectionRefusedError" in check.result()
    check.close()


def test_nobody_waits_for_one_that_is_not_over(check: HealthCheck) -> None:
    Pages.may_answer.clear()
    check.start()
    check.results.setblocking(False)
    with pytest.raises(BlockingIOError):
        check.result()
    check.close()
    Pages.may_answer.set()
