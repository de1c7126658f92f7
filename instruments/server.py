"""The server to measure: one that runs, or one started for the measurement."""

from __future__ import annotations

import argparse
import contextlib
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_STOP_LIMIT_S = 60.0


@dataclass(frozen=True)
class Server:
    """Addresses, `host:port`; without `metrics`, there is no account by stage."""

    grpc: str
    metrics: str | None

    @property
    def metrics_url(self) -> str | None:
        return None if self.metrics is None else f"http://{self.metrics}/metrics"


@contextlib.contextmanager
def server_at(grpc: str | None, metrics: str | None, serve_options: Sequence[str] = ()) -> Iterator[Server]:
    """The server at an address, or (without one) a `talkahead serve` of its own, stopped at the end."""
    if grpc is not None:
        yield Server(grpc, metrics)
        return
    command = [sys.executable, "-m", "talkahead", "serve", *serve_options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield _ready(process)
        finally:
            process.terminate()
            try:
                process.wait(_STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()


def add_server_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("server")
    group.add_argument("--server", help="gRPC address; without it, a server is started for the measurement")
    group.add_argument("--metrics", help="that server's metrics address, for the account by stage")
    group.add_argument("--serve-option", action="append", default=[], metavar="OPTION",
                       help="for `talkahead serve`, as in --serve-option=--threads=talker=2")  # fmt: skip


def _ready(process: subprocess.Popen[str]) -> Server:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("ready"):
            return read_ready_line(line)
    raise SystemExit(f"the server did not start (exit status {process.wait()}); its log says why")


def read_ready_line(line: str) -> Server:
    addresses = dict(re.findall(r"(grpc|metrics) (\S+:\d+)", line))
    return Server(addresses["grpc"], addresses.get("metrics"))
