"""A collector of OpenTelemetry traces: a loopback server that reads OTLP over HTTP, as JSON."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self


@dataclass(frozen=True)
class Span:
    """What a test asks of one."""

    service: str
    name: str
    trace: str
    id: str
    parent: str
    request_id: str
    start_ns: int
    end_ns: int


class Collector:
    """`with` ends it."""

    def __init__(self) -> None:
        collector = self

        class Door(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                assert self.headers["Content-Type"] == "application/json"
                collector._add(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *arguments: object) -> None:
                """Silent."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1/traces"
        self.spans: list[Span] = []
        self._changed = threading.Condition()
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def await_spans(self, names: set[str], limit_s: float) -> list[Span]:
        """Those that have come, once there is one of each name."""
        with self._changed:
            has_all = self._changed.wait_for(lambda: names <= {span.name for span in self.spans}, limit_s)
            assert has_all, sorted({span.name for span in self.spans})
            return list(self.spans)

    def _add(self, sent: dict[str, Any]) -> None:
        with self._changed:
            for resource in sent["resourceSpans"]:
                service = _attributes(resource["resource"])["service.name"]
                self.spans += [
                    _span(service, span) for scope in resource["scopeSpans"] for span in scope["spans"]
                ]
            self._changed.notify_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


def _span(service: str, span: dict[str, Any]) -> Span:
    return Span(
        service=service,
        name=span["name"],
        trace=span["traceId"],
        id=span["spanId"],
        parent=span.get("parentSpanId", ""),
        request_id=_attributes(span).get("triton.request_id", ""),
        start_ns=int(span["startTimeUnixNano"]),
        end_ns=int(span["endTimeUnixNano"]),
    )


def _attributes(of: dict[str, Any]) -> dict[str, str]:
    return {one["key"]: one["value"].get("stringValue", "") for one in of.get("attributes", ())}
