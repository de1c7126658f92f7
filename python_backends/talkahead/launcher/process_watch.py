"""Notices the end of processes that are not our children: file descriptors that become readable."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from talkahead.launcher.installation import STUB

_EXITING = 0x4
"""PF_EXITING of the kernel's flags of a task (proc_pid_stat(5))."""
_KILL = 1 << (signal.SIGKILL - 1)
"""Its bit among the signals that wait for a task."""


@dataclass(frozen=True)
class ModelProcess:
    """The process of one Python model, a child of the server; `handle` is a pidfd."""

    pid: int
    model: str
    """Empty: the process ended before it was seen alive."""
    handle: int

    @classmethod
    def open(cls, pid: int, model: str) -> Self | None:
        """None when the process is gone already, and was waited for by the server."""
        try:
            return cls(pid, model, os.pidfd_open(pid))
        except ProcessLookupError:
            return None

    def exit_status(self) -> int | None:
        """Negative: of a signal. Known as long as the server has not asked for it."""
        try:
            return os.waitstatus_to_exitcode(int(_stat(self.pid)[-1]))
        except (OSError, ValueError):
            return None

    @property
    def is_dying(self) -> bool:
        """It runs no more, but is not gone yet: the kernel takes its time to free what a talker holds.

        Other processes may know before that: locks that it held are given up first.
        """
        try:
            stat = _stat(self.pid)
        except OSError:
            return False
        state, flags, pending = stat[0], int(stat[6]), int(stat[28])
        return state not in "ZX" and bool(flags & _EXITING or pending & _KILL)

    def death(self, status: int | None) -> str:
        """A sentence about its end."""
        whose = f"model {self.model}" if self.model else "a model"
        if status is None:
            return f"the process of {whose} died (pid {self.pid})"
        how = f"status {status}" if status >= 0 else signal.Signals(-status).name
        return f"the process of {whose} died (pid {self.pid}, {how})"

    @property
    def is_waited_for(self) -> bool:
        """The server knows of its end."""
        return not Path(f"/proc/{self.pid}").exists()

    def close(self) -> None:
        os.close(self.handle)


def model_processes(server: int, *, also_ended: bool = False) -> Iterator[tuple[int, str]]:
    """Process ids and models of a server's Python models.

    Args:
        also_ended: those too, without a name, that ended and were not waited for by the server, which forgets
            to when they end before they have spoken to it.
    """
    for folder in Path("/proc").glob("[0-9]*"):
        pid = int(folder.name)
        try:
            state, parent = _stat(pid)[:2]
            if int(parent) != server:
                continue
            if state in "ZX":
                if also_ended:
                    yield pid, ""
                continue
            arguments = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except (OSError, ValueError):
            continue
        if arguments[0].endswith(STUB) and len(arguments) > 1:
            yield pid, _model_name(Path(arguments[1]))


def _stat(pid: int) -> list[str]:
    """What the kernel says of a process: its state, its parent and more; the last is its exit status."""
    # After the name in parentheses, which may hold anything.
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()


def _model_name(script: Path) -> str:
    """The stub's first argument is <repository>/<model>/<version>/model.py."""
    return script.parent.parent.name
