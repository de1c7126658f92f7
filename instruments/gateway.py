"""The gateway before a server that runs, started for a measurement."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

_STOP_LIMIT_S = 60.0


@dataclass(frozen=True)
class Gateway:
    """Where its doors are, `host:port`."""

    http: str
    riva: str


@contextlib.contextmanager
def gateway_before(grpc: str) -> Iterator[Gateway]:
    """It is ended behind it.

    Args:
        grpc: address of the server.
    """
    command = [sys.executable, "-m", "talkahead", "gateway", "--server", grpc, "--riva-port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8") as process:
        try:
            assert process.stdout is not None
            words = process.stdout.readline().split()
            if words[1::2] != ["http", "riva"]:
                raise SystemExit(f"the gateway did not start (exit status {process.wait()})")
            yield Gateway(*words[2::2])
        finally:
            process.terminate()
            process.wait(_STOP_LIMIT_S)
