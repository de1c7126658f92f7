"""What the talker lets the frontend say to newcomers before any work is paid for: that the wait is too long.

A small file where the models meet, for it is read with every request and written with every change.
"""

from __future__ import annotations

import os
import struct
from dataclasses import astuple
from pathlib import Path
from tempfile import mkstemp

from talkahead.config import LEAST_URGENT
from talkahead.transport.messages import LongWait, Waits
from talkahead.transport.rendezvous import rendezvous_folder

_NAME = "waits"
_WAIT = struct.Struct("<dd")


class WaitNotice:
    """The talker's side. One that takes the place of another takes over its notice."""

    def __init__(self, folder: Path | None = None) -> None:
        folder = folder or rendezvous_folder()
        self._file, name = mkstemp(dir=folder)
        os.replace(name, folder / _NAME)
        self._told: Waits = ()

    def tell(self, waits: Waits) -> None:
        """From now on."""
        if waits != self._told:
            self._told = waits
            os.pwrite(self._file, b"".join(map(_pack, waits)), 0)

    def close(self) -> None:
        self.tell((None,) * len(self._told))
        os.close(self._file)


def long_wait(folder: Path, urgency: int) -> LongWait | None:
    """What a newcomer is to be told, by the notice in `folder`; None also where there is no notice."""
    try:
        with (folder / _NAME).open("rb") as file:
            told = os.pread(file.fileno(), _WAIT.size, (urgency - LEAST_URGENT) * _WAIT.size)
    except FileNotFoundError:
        return None
    predicted_s, limit_s = _WAIT.unpack(told) if len(told) == _WAIT.size else (0.0, 0.0)
    return LongWait(predicted_s, limit_s) if predicted_s else None


def _pack(wait: LongWait | None) -> bytes:
    return _WAIT.pack(*(astuple(wait) if wait else (0.0, 0.0)))
