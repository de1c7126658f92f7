"""How much Python a call runs, which is the same on any machine and under any load."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType


def bytecodes_of(work: Callable[[], object]) -> int:
    """Bytecodes that run within a call, in whatever function of ours or of a library.

    A loop within C code that calls no Python (`tolist`, `map` of a built-in) is not seen.
    """
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> Callable[..., object]:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    # Python 3.12 counts none before the first frame has asked for it, and looks only when a trace is set.
    sys._getframe().f_trace_opcodes = True
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count
