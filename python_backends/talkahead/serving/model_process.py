"""What a model's process makes of itself once its model is there."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import threading
import traceback
from contextlib import suppress

FAILED_STATUS = 70
"""Exit status of a process that one of its threads ended: sysexits' EX_SOFTWARE."""


def settle(model: str) -> None:
    """At the end of `initialize`: the garbage collector never again looks through what is there by now, what
    loading took for a while goes back to the system, and the process ends with any of its threads, to be
    started again by the launcher.

    With torch there are 170,000 objects, and a full collection of them stops every thread of the talker for
    170 ms; what is made from here on takes it 11 ms after 1,000 streams.
    """
    gc.collect()
    gc.freeze()
    _give_back_memory()
    _exit_on_thread_failure(model)


def _give_back_memory() -> None:
    """C's library keeps what was freed between what is in use: some 50 MB of an encoder's 300."""
    with suppress(AttributeError):  # not GNU's
        ctypes.CDLL(None).malloc_trim(0)


def _exit_on_thread_failure(model: str) -> None:
    """From now on an exception that leaves a thread of this process ends the process.

    Without one of its threads a model would take requests and never answer them. The reason goes to standard
    error, which is the server's log: Triton's own logger works in the background, and would lose it here.
    """

    def end(failure: threading.ExceptHookArgs) -> None:
        name = failure.thread.name if failure.thread else "unknown"
        try:
            traceback.print_exception(failure.exc_type, failure.exc_value, failure.exc_traceback)
            print(f"model {model} ends: its thread {name} has failed", file=sys.stderr, flush=True)
        finally:
            os._exit(FAILED_STATUS)

    threading.excepthook = end
