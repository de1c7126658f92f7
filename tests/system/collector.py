"""A collector of OpenTelemetry traces: a loopback server that reads what OTLP over HTTP brings."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class Span:
    """What a test asks of one; ids in hexadecimal."""

    service: str
    name: str
    trace: str
    id: str
    parent: str
    model: str
    request_id: str
    start_ns: int
    end_ns: int


class Collector:
    """`with` ends it."""

    def __init__(self) -> None:
        collector = self

        class Door(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector._add(ExportTraceServiceRequest.FromString(body))
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

    def _add(self, request: ExportTraceServiceRequest) -> None:
        with self._changed:
            for resource in request.resource_spans:
                about = {one.key: one.value.string_value for one in resource.resource.attributes}
                for scope in resource.scope_spans:
                    for span in scope.spans:
                        said = {one.key: one.value.string_value for one in span.attributes}
                        self.spans.append(
                            Span(
                                about["service.name"],
                                span.name,
                                span.trace_id.hex(),
                                span.span_id.hex(),
                                span.parent_span_id.hex(),
                                said.get("triton.model_name", ""),
                                said.get("triton.request_id", ""),
                                span.start_time_unix_nano,
                                span.end_time_unix_nano,
                            )
                        )
            self._changed.notify_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
