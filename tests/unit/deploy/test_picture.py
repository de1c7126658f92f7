"""The dashboard as a picture: every line is asked for as Grafana would, and drawn."""

from __future__ import annotations

import json
import threading
import urllib.parse
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

pytest.importorskip("matplotlib")

from deploy.observability.panels import QUESTIONS, Line
from deploy.observability.picture import History, main


class Prometheus(BaseHTTPRequestHandler):
    asked: ClassVar[list[dict[str, str]]] = []

    def do_GET(self) -> None:
        query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query))
        self.asked.append(query)
        values = [[float(query["start"]), "0.25"], [float(query["end"]), "NaN"]]
        result = [{"metric": {"reason": "error"}, "values": values}]
        body = json.dumps({"data": {"result": result}}).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Silent."""


@pytest.fixture
def prometheus(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(Prometheus, "asked", [])
    with ThreadingHTTPServer(("127.0.0.1", 0), Prometheus) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_every_line_is_asked_for_without_grafanas_variables(prometheus: str, tmp_path: Path) -> None:
    out = tmp_path / "dashboard.png"
    assert main([prometheus, "--seconds", "60", "--out", str(out)]) == 0
    assert out.read_bytes().startswith(b"\x89PNG")
    lines = [line for question in QUESTIONS for panel in question.panels for line in panel.lines]
    assert len(Prometheus.asked) == len(lines)
    assert not any("$" in asked["query"] for asked in Prometheus.asked)


def test_a_line_is_named_by_its_labels_and_holds_what_is_a_number(prometheus: str) -> None:
    history = History(prometheus, 60.0, "10s", "talkahead")
    (series,) = history.series(Line("ended: {{reason}}", "rate(x[$__rate_interval])"))
    assert (series.name, series.values) == ("ended: error", [0.25])
    assert series.at_s[0] == pytest.approx(-60.0, abs=1.0)
