"""Health of the path from text to sound, not of processes: when to ask for a syllable, and what it means.

A server can have all its processes and answer every request with an error: Triton 24.10 does so for ever
once a model was held up for a second or two.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from talkahead.launcher.health_check import is_well

_REST_S = 1.0
"""Between a syllable that was spoken and the next, however much the log complains."""


class PathWatch:
    """Asks after an error in the server's log, and now and then without one.

    Args:
        say: starts a syllable, and returns at once.
        interval_s: without an error in the log; 0: never.
        clock: seconds that never go back.
    """

    def __init__(
        self, say: Callable[[], None], interval_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._say = say
        self._interval_s = interval_s or math.inf
        self._clock = clock
        self._is_asking = False
        self._num_errors = 0
        """Of the log, when the last syllable was asked for."""
        self._spoken_at = clock()
        self._has_failed = False
        """The last syllable was not spoken."""

    def look(self, num_errors: int) -> float | None:
        """Asks if it is time to; returns the seconds to wait for the next look, None for no end.

        Args:
            num_errors: in the server's log so far.
        """
        wait_s = self._wait_s(num_errors)
        if wait_s <= 0:
            self._is_asking, self._num_errors = True, num_errors
            self._say()
            wait_s = math.inf
        return wait_s if wait_s < math.inf else None

    def is_sick(self, failure: str) -> bool:
        """Told what has become of the syllable. One that was not spoken is asked for again, which decides."""
        self._is_asking = False
        was_failing, self._has_failed = self._has_failed, bool(failure) and not is_well(failure)
        if not self._has_failed:
            self._spoken_at = self._clock()
        return self._has_failed and was_failing

    def _wait_s(self, num_errors: int) -> float:
        if self._is_asking:
            return math.inf
        if self._has_failed:
            return 0.0
        pause_s = _REST_S if num_errors > self._num_errors else self._interval_s
        return self._spoken_at + pause_s - self._clock()
