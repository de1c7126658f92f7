"""A real `talkahead gateway` under test."""

from __future__ import annotations

import signal
import subprocess
import sys
from types import TracebackType
from typing import Self

EXIT_LIMIT_S = 20.0


class FrontDoor:
    """The command, started at once and ready when this returns; `with` drains it at the end.

    Args:
        servers: gRPC addresses.
        options: of the command.
    """

    def __init__(self, *servers: str, options: tuple[str, ...] = ()) -> None:
        command = [sys.executable, "-m", "talkahead", "gateway", "--server", ",".join(servers), *options]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8")
        assert self._process.stdout is not None
        ready = self._process.stdout.readline().split()
        assert ready[:2] == ["ready", "http"], ready
        self.address = ready[2]

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self.ask_to_stop()
            self.exit_status()
        finally:
            self._process.kill()
            self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()

    def ask_to_stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)

    def exit_status(self) -> int:
        return self._process.wait(EXIT_LIMIT_S)
