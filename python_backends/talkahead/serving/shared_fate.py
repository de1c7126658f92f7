"""A model's process ends with any of its threads, and is started again by the launcher."""

from __future__ import annotations

import os
import sys
import threading
import traceback

FAILED_STATUS = 70
"""Exit status of such a process: sysexits' EX_SOFTWARE."""


def end_with_any_thread(model: str) -> None:
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
