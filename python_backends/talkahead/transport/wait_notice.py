"""What the talker lets the frontend say to newcomers before any work is paid for: that the wait is too long.

A small file where the models meet, for it is read with every request and written with every change.
"""

from __future__ import annotations

import os
import struct
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkstemp

from talkahead.config import LEAST_URGENT, MOST_URGENT
from talkahead.transport.messages import LongWait, Outlook, Waits
from talkahead.transport.rendezvous import rendezvous_folder

_NAME = "waits"
_ARRIVED = struct.Struct("<q")
_OUTLOOK = struct.Struct("<qddd")
_URGENCIES = MOST_URGENT - LEAST_URGENT + 1
_SIZE = _ARRIVED.size + _URGENCIES * _OUTLOOK.size
_LONGEST_WAY_S = 0.5
"""From the frontend to the talker. Who has not come by then ended on the way."""


class WaitNotice:
    """The talker's side. One that takes the place of another takes over its notice."""

    def __init__(self, folder: Path | None = None) -> None:
        folder = folder or rendezvous_folder()
        self._file, name = mkstemp(dir=folder)
        os.replace(name, folder / _NAME)
        self._told: Waits | None = None

    def tell(self, waits: Waits) -> None:
        """From now on."""
        if waits != self._told:
            self._told = waits
            # Not by `astuple`, which copies what it finds: this is told with nearly every step.
            packed = (
                _OUTLOOK.pack(one.num_missing, one.slot_s, one.work_s, one.limit_s) for one in waits.outlooks
            )
            os.pwrite(self._file, b"".join((_ARRIVED.pack(waits.num_arrived), *packed)), 0)

    def close(self) -> None:
        os.ftruncate(self._file, 0)
        os.close(self._file)


@dataclass(frozen=True)
class _OnTheWay:
    """A stream that was let in; it has come once the talker counts `number` streams."""

    number: int
    urgency: int
    since: float


class Doorkeeper:
    """The frontend's side, of one thread: lets newcomers in as the talker's notice and those say who are on
    their way to it, whom it cannot know of yet. Without a notice, everybody.

    Args:
        folder: where the models meet.
        clock: seconds that never go back.
    """

    def __init__(self, folder: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._notice = folder / _NAME
        self._clock = clock
        self._num_arrived = 0
        self._on_the_way: deque[_OnTheWay] = deque()

    def long_wait(self, urgency: int) -> LongWait | None:
        """Why a newcomer is not let in; None where it is."""
        told = self._read()
        self._look(told.num_arrived if told else 0)
        if told is None:
            return None
        before = sum(one.urgency >= urgency for one in self._on_the_way)
        return told.outlooks[urgency - LEAST_URGENT].behind(before).long_wait

    def let_in(self, urgency: int) -> None:
        """A newcomer goes on to the talker, whose notice has just been looked at."""
        number = self._num_arrived + len(self._on_the_way) + 1
        self._on_the_way.append(_OnTheWay(number, urgency, self._clock()))

    def _look(self, num_arrived: int) -> None:
        self._num_arrived, too_long_ago = num_arrived, self._clock() - _LONGEST_WAY_S
        way = self._on_the_way
        while way and (way[0].number <= num_arrived or way[0].since < too_long_ago):
            way.popleft()

    def _read(self) -> Waits | None:
        try:
            with self._notice.open("rb") as file:
                told = os.pread(file.fileno(), _SIZE, 0)
        except FileNotFoundError:
            return None
        if len(told) < _SIZE:
            return None
        (num_arrived,) = _ARRIVED.unpack_from(told)
        outlooks = _OUTLOOK.iter_unpack(told[_ARRIVED.size :])
        return Waits(num_arrived, tuple(Outlook(*fields) for fields in outlooks))
