"""A real `talkahead gateway` under test."""

from __future__ import annotations

import subprocess
import sys

from running_command import RunningCommand


class FrontDoor(RunningCommand):
    """The command, started at once and ready when this returns; `with` drains it at the end.

    Args:
        servers: gRPC addresses.
        options: of the command.
    """

    def __init__(self, *servers: str, options: tuple[str, ...] = ()) -> None:
        command = [sys.executable, "-m", "talkahead", "gateway", "--server", ",".join(servers), *options]
        super().__init__(subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8"))
        assert self.process.stdout is not None
        ready = self.process.stdout.readline().split()
        assert ready[:2] == ["ready", "http"], ready
        self.address = ready[2]
        self.riva = ready[4] if "riva" in ready else None

    @property
    def url(self) -> str:
        return f"http://{self.address}"
