"""What enters the engine and what leaves it.

Shapes: P prompt rows, D hidden size, W frames of a window, C codebooks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from talkahead.config import RequestOptions
from talkahead.engine.method import Method
from talkahead.errors import TalkaheadError
from talkahead.families.contracts import NO_WORDS, Words
from talkahead.types import SegmentHeader, Stats, WindowHeader


@dataclass(frozen=True)
class Window:
    """One window for the vocoder: frames int32 [W, C], its header, the stream's totals so far, and the words
    that begin in it, int32 [n, 4]."""

    header: WindowHeader
    frames: npt.NDArray[np.int32]
    stats: Stats
    words: Words


class Outlet(Protocol):
    """Where one segment's windows go. The engine calls it from one thread that is not the loop's.

    Exactly one of `close` and `fail` is called, once, and nothing after it.
    """

    def send(self, window: Window) -> None: ...

    def close(self) -> None:
        """The segment is done: FINAL, no error."""

    def fail(self, error: TalkaheadError) -> None:
        """An error response with FINAL."""


@dataclass(frozen=True)
class SegmentRequest:
    """One segment of a stream: prompt float32 [P, D], the stream's options, and where its windows go.

    Args:
        method: how it is drafted for and verified; None: plainly.
        history: int64 [H], the talker's own tokens that stand in the prompt, in order: a reference's.
        words: int32 [n, 4], where in the prompt each word begins.
    """

    header: SegmentHeader
    prompt: npt.NDArray[np.float32]
    options: RequestOptions
    request_id: str
    outlet: Outlet
    method: Method | None = None
    history: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    words: Words = field(default_factory=lambda: NO_WORDS)
