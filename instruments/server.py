"""The server to measure: one that runs, or one started for the measurement."""

from __future__ import annotations

import argparse
import contextlib
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from instruments.environment import REPOSITORY

_STOP_LIMIT_S = 60.0


@dataclass(frozen=True)
class Server:
    """Addresses, `host:port`; without `metrics`, there is no account by stage.

    Args:
        launcher: process id of the command, where it was started for the measurement.
    """

    grpc: str
    metrics: str | None
    http: str | None = None
    launcher: int | None = None

    @property
    def metrics_url(self) -> str | None:
        return None if self.metrics is None else f"http://{self.metrics}/metrics"

    def metrics_page(self) -> str:
        """As Prometheus reads it; empty where the address is not known."""
        if self.metrics_url is None:
            return ""
        with urllib.request.urlopen(self.metrics_url, timeout=10) as page:
            text: str = page.read().decode("utf-8")
        return text


@contextlib.contextmanager
def server_at(
    grpc: str | None,
    metrics: str | None,
    serve_options: Sequence[str] = (),
    repository: Path | None = None,
    prefix: Sequence[str] = (),
) -> Iterator[Server]:
    """The server at an address, or (without one) a `talkahead serve` of its own, stopped at the end.

    Args:
        prefix: of its command, which becomes that command.
    """
    if grpc is not None:
        yield Server(grpc, metrics)
        return
    served = [] if repository is None else ["--repository", str(repository)]
    command = [*prefix, sys.executable, "-m", "talkahead", "serve", *served, *serve_options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8", errors="replace") as process:
        try:
            yield replace(_ready(process), launcher=process.pid)
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
    group.add_argument("--repository", type=Path,
                       help="its model repository, which the report names the weights of (the checkout's; of "
                       "a --server, unknown)")  # fmt: skip
    group.add_argument("--serve-option", action="append", default=[], metavar="OPTION",
                       help="for `talkahead serve`, as in --serve-option=--threads=talker=2")  # fmt: skip


def served_repository(options: argparse.Namespace) -> Path | None:
    """The server's model repository, as far as the options of `add_server_options` tell."""
    named: Path | None = options.repository
    return named if named is not None or options.server is not None else REPOSITORY


def _ready(process: subprocess.Popen[str]) -> Server:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("ready"):
            return read_ready_line(line)
    raise SystemExit(f"the server did not start (exit status {process.wait()}); its log says why")


def read_ready_line(line: str) -> Server:
    addresses = dict(re.findall(r"(grpc|http|metrics) (\S+:\d+)", line))
    return Server(addresses["grpc"], addresses.get("metrics"), addresses.get("http"))
