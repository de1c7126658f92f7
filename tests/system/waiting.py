"""The one bounded wait of these tests, for states that announce themselves by no event."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")

_PAUSE_S = 0.02


def eventually(probe: Callable[[], Value], holds: Callable[[Value], bool], *, limit_s: float = 15.0) -> Value:
    """The first value of `probe` that holds; fails with the last one seen when that takes too long."""
    ends = time.monotonic() + limit_s
    pause = threading.Event()
    while not holds(value := probe()):
        assert time.monotonic() < ends, f"after {limit_s:g} s still {value!r}"
        pause.wait(_PAUSE_S)
    return value
