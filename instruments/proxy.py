"""Debian's haproxy with the configuration of deploy/haproxy, before two servers on this machine."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from talkahead.launcher.addresses import Addresses

_CONFIG = Path(__file__).parents[1] / "deploy" / "haproxy" / "haproxy.cfg"
_END_LIMIT_S = 10.0
_CONNECT_LIMIT_S = 10.0
_NAMES = ("FIRST", "SECOND")


@dataclass(frozen=True)
class Proxy:
    """Where it listens, `host:port`."""

    address: str
    metrics: str

    def requests(self) -> tuple[int, int]:
        """Of each replica, streams and calls that it was given since the proxy started; no health checks."""
        with urllib.request.urlopen(f"http://{self.metrics}/metrics", timeout=10) as page:
            text = page.read().decode()
        pattern = r'^haproxy_server_sessions_total{.*server="(first|second)"} (\d+)'
        given = {name: int(count) for name, count in re.findall(pattern, text, re.MULTILINE)}
        return given["first"], given["second"]


@contextlib.contextmanager
def proxy_before(replicas: tuple[tuple[str, str], tuple[str, str]], log: Path) -> Iterator[Proxy]:
    """It is ended behind it.

    Args:
        replicas: the addresses of each, of gRPC and of HTTP, `host:port`.
        log: written by the proxy: a line for each change of a replica's health.
    """
    free = Addresses.choose("127.0.0.1")
    proxy = Proxy(f"{free.host}:{free.grpc}", f"{free.host}:{free.metrics}")
    environment = {"PROXY": proxy.address, "PROXY_METRICS": proxy.metrics}
    for name, (grpc, http) in zip(_NAMES, replicas, strict=True):
        host, _, grpc_port = grpc.rpartition(":")
        environment |= {name: host, f"{name}_GRPC": grpc_port, f"{name}_HTTP": http.rpartition(":")[2]}
    with log.open("wb") as written:
        process = subprocess.Popen(
            ["haproxy", "-db", "-f", _CONFIG], env={**os.environ, **environment}, stderr=written
        )
        try:
            _await(proxy.address, process)
            yield proxy
        finally:
            process.terminate()
            try:
                process.wait(_END_LIMIT_S)
            finally:
                process.kill()


def _await(address: str, process: subprocess.Popen[bytes]) -> None:
    """Returns once it listens; raises where it does not."""
    host, _, port = address.partition(":")
    with contextlib.ExitStack() as stack:
        while process.poll() is None:
            with contextlib.suppress(ConnectionRefusedError):
                stack.enter_context(socket.create_connection((host, int(port)), _CONNECT_LIMIT_S))
                return
    raise RuntimeError(f"haproxy ended with status {process.returncode}; its log says why")
