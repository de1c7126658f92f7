"""Notices the end of processes that are not our children: file descriptors that become readable."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from talkahead.serving.installation import STUB


@dataclass(frozen=True)
class ModelProcess:
    """The process of one Python model, a child of the server; `handle` is a pidfd."""

    pid: int
    model: str
    handle: int

    @classmethod
    def open(cls, pid: int, model: str) -> Self | None:
        """None when the process ended before it could be watched."""
        try:
            return cls(pid, model, os.pidfd_open(pid))
        except ProcessLookupError:
            return None

    def close(self) -> None:
        os.close(self.handle)


def model_processes(server: int) -> Iterator[tuple[int, str]]:
    """Process ids and models of a server's living Python models."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            # After the name in parentheses, which may hold anything: state, parent.
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            if int(parent) != server or state in "ZX":
                continue
            arguments = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except (OSError, ValueError):
            continue
        if arguments[0].endswith(STUB) and len(arguments) > 1:
            yield int(folder.name), _model_name(Path(arguments[1]))


def _model_name(script: Path) -> str:
    """The stub's first argument is <repository>/<model>/<version>/model.py."""
    return script.parent.parent.name
