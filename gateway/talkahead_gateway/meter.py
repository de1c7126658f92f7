"""What the door counts, for Prometheus."""

from __future__ import annotations

import time
from collections.abc import Sized

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_FIRST_BYTE_BUCKETS_S = (0.02, 0.03, 0.04, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 2.0, 5.0)
"""Fine where a listener is pleased, coarse where they wait."""
_DURATION_BUCKETS_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1200.0)
"""From a refusal to the longest text in the time that it takes to listen to it."""

_UNKNOWN = "unknown"


class Meter:
    """The door's metrics, in a registry of their own.

    Args:
        streams: what is open, by its length.
    """

    def __init__(self, streams: Sized) -> None:
        self._registry = CollectorRegistry()
        self.requests = Counter(
            "talkahead_gateway_requests",
            "Requests by route and status (gRPC's by its name); where a client left before there was one, it "
            "is 'left', and 101 is a WebSocket",
            ["route", "status"],
            registry=self._registry,
        )
        self.cut = Counter(
            "talkahead_gateway_cut_responses",
            "Responses that had begun and ended early, as their client left or speech failed, by route",
            ["route"],
            registry=self._registry,
        )
        self.first_byte_s = self._histogram(
            "first_byte", "From a request to the first byte of its answer", _FIRST_BYTE_BUCKETS_S
        )
        self.duration_s = self._histogram(
            "duration", "From a request to the end of its answer", _DURATION_BUCKETS_S
        )
        open_streams = Gauge(
            "talkahead_gateway_open_streams", "Utterances that are being spoken", registry=self._registry
        )
        open_streams.set_function(lambda: len(streams))

    def page(self) -> bytes:
        return generate_latest(self._registry)

    def count(self, route: str, answer: Answer) -> None:
        """One whose answer is over."""
        self.requests.labels(route, answer.status or "left").inc()
        self.duration_s.labels(route).observe(answer.elapsed_s())
        if answer.first_byte_s is not None:
            self.first_byte_s.labels(route).observe(answer.first_byte_s)
        if answer.has_begun and not answer.is_complete:
            self.cut.labels(route).inc()

    def _histogram(self, name: str, about: str, buckets_s: tuple[float, ...]) -> Histogram:
        return Histogram(
            f"talkahead_gateway_{name}_seconds",
            f"{about}, by route",
            ["route"],
            buckets=buckets_s,
            registry=self._registry,
        )


class Answer:
    """One answer on its way."""

    def __init__(self) -> None:
        self._started_s = time.perf_counter()
        self.status = ""
        self.first_byte_s: float | None = None
        self.has_begun = False
        self.is_complete = False

    def elapsed_s(self) -> float:
        return time.perf_counter() - self._started_s

    def note_byte(self) -> None:
        """Some of it has left."""
        self.has_begun = True
        if self.first_byte_s is None:
            self.first_byte_s = self.elapsed_s()


class Metered:
    """An ASGI middleware: every request into the meter, as its answer passes by."""

    def __init__(self, app: ASGIApp, meter: Meter) -> None:
        self._app = app
        self._meter = meter

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._app(scope, receive, self._connecting(scope, send))
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = Answer()
        try:
            await self._app(scope, receive, _noting(answer, send))
        except Exception:
            # Answered further out.
            answer.status = answer.status or "500"
            raise
        finally:
            self._meter.count(_route(scope), answer)

    def _connecting(self, scope: Scope, send: Send) -> Send:
        """Of a WebSocket, which may stay for hours, only whether it was accepted is counted."""

        async def noted(message: Message) -> None:
            await send(message)
            if message["type"] == "websocket.accept":
                self._meter.requests.labels(_route(scope), "101").inc()
            elif message["type"] == "websocket.http.response.start":
                self._meter.requests.labels(_route(scope), str(message["status"])).inc()

        return noted


def _route(scope: Scope) -> str:
    return getattr(scope.get("route"), "path", _UNKNOWN)


def _noting(answer: Answer, send: Send) -> Send:
    """Sends, and notes what has left."""

    async def noted(message: Message) -> None:
        await send(message)
        if message["type"] == "http.response.start":
            answer.status = str(message["status"])
            answer.has_begun = True
            return
        if message.get("body"):
            answer.note_byte()
        answer.is_complete = not message.get("more_body", False)

    return noted
