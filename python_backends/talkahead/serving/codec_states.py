"""What each utterance's next window needs of the one before: kept from window to window, opaque to us."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from talkahead.errors import TalkaheadError
from talkahead.types import WindowHeader

LEFT_AFTER_S = 600.0
"""Without a window for so long, a stream has ended: of one that was given up, no last window comes."""


@dataclass(frozen=True)
class _Kept:
    state: object
    position: int
    """Of the frame that the next window must begin with."""
    at: float


class CodecStates:
    """By stream; one that has ended, or was left, is forgotten."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: OrderedDict[tuple[int, int, int], _Kept] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def of(self, header: WindowHeader) -> object | None:
        """None where an utterance begins; raises TalkaheadError where the window before is missing."""
        if header.position == 0:
            return None
        kept = self._kept.get(header.stream_key)
        if kept is None or kept.position != header.position:
            raise TalkaheadError(f"the window before position {header.position} was not decoded here")
        return kept.state

    def keep(self, header: WindowHeader, state: object) -> None:
        """After a window has been decoded."""
        key, now = header.stream_key, self._clock()
        self._kept.pop(key, None)
        if not header.last:
            self._kept[key] = _Kept(state, header.position + header.new, now)
        while self._kept and now - next(iter(self._kept.values())).at > LEFT_AFTER_S:
            self._kept.popitem(last=False)
