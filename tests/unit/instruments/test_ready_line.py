"""Where a server listens, from what it prints."""

from __future__ import annotations

from instruments.server import Server, read_ready_line


def test_the_ready_line() -> None:
    line = "ready grpc 127.0.0.1:1 http 127.0.0.1:2 metrics 127.0.0.1:3\n"
    assert read_ready_line(line) == Server("127.0.0.1:1", "127.0.0.1:3", "127.0.0.1:2")
    assert read_ready_line(line).metrics_url == "http://127.0.0.1:3/metrics"
