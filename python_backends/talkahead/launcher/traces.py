"""Where traces of requests go: Triton's own, as OpenTelemetry's protocol has them over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from talkahead.errors import Code, TalkaheadError

_SERVICE = "talkahead"


@dataclass(frozen=True)
class Traces:
    """A collector, and how many requests it is told of.

    Args:
        url: of its OTLP over HTTP, as `http://127.0.0.1:4318/v1/traces`.
        every: one request in so many; 0: those alone whose client sends a `traceparent`.
    """

    url: str
    every: int = 1

    def __post_init__(self) -> None:
        """Raises TalkaheadError: Triton sends to nobody what it cannot send, and says so for each span."""
        parts = urlsplit(self.url)
        # Triton reads its options at the commas.
        if parts.scheme not in ("http", "https") or not parts.hostname or "," in self.url:
            allowed = "http://HOST:PORT/v1/traces of a collector, without a comma"
            raise TalkaheadError(
                f"--traces: {self.url!r} is not accepted; allowed: {allowed}", Code.INVALID_ARGUMENT
            )

    @property
    def server_flags(self) -> Iterator[str]:
        """Of tritonserver."""
        settings = (
            "mode=opentelemetry",
            "level=TIMESTAMPS",
            f"rate={self.every}",
            "count=-1",
            f"opentelemetry,url={self.url}",
            f"opentelemetry,resource=service.name={_SERVICE}",
        )
        return (f"--trace-config={setting}" for setting in settings)
