"""A command of ours that runs as a process of its own until it is stopped."""

from __future__ import annotations

import signal
import subprocess
from types import TracebackType
from typing import Self

EXIT_LIMIT_S = 60.0


class RunningCommand:
    """`with` stops it at the end, however the test went.

    Args:
        process: of the command, which ends at SIGTERM.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self.ask_to_stop()
            self.exit_status()
        finally:
            self.process.kill()
            self.process.wait()
            self.let_go()

    def ask_to_stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def exit_status(self, limit_s: float = EXIT_LIMIT_S) -> int:
        """Waits for the end."""
        return self.process.wait(limit_s)

    def let_go(self) -> None:
        """Of what belonged to the process, once that has ended."""
        if self.process.stdout is not None:
            self.process.stdout.close()
