"""Debian's haproxy with the configuration of deploy/haproxy, before two servers on this machine."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

_CONFIG = Path(__file__).parents[1] / "deploy" / "haproxy" / "haproxy.cfg"
_END_LIMIT_S = 10.0
_CONNECT_LIMIT_S = 10.0
_NAMES = ("FIRST", "SECOND")


@contextlib.contextmanager
def proxy_before(replicas: tuple[tuple[str, str], tuple[str, str]], log: Path) -> Iterator[str]:
    """The address of the proxy, which is ended behind it.

    Args:
        replicas: the addresses of each, of gRPC and of HTTP, `host:port`.
        log: written by the proxy: a line for each change of a replica's health.
    """
    address = f"127.0.0.1:{_free_port()}"
    environment = {"PROXY": address}
    for name, (grpc, http) in zip(_NAMES, replicas, strict=True):
        host, _, grpc_port = grpc.rpartition(":")
        environment |= {name: host, f"{name}_GRPC": grpc_port, f"{name}_HTTP": http.rpartition(":")[2]}
    with log.open("wb") as written:
        process = subprocess.Popen(
            ["haproxy", "-db", "-f", _CONFIG], env={**os.environ, **environment}, stderr=written
        )
        try:
            _await(address, process)
            yield address
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


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port
