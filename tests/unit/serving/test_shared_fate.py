"""A process of its own, since it ends."""

from __future__ import annotations

import subprocess
import sys

from talkahead.serving.shared_fate import FAILED_STATUS

_MODEL = """
import threading
from talkahead.serving.shared_fate import end_with_any_thread

def fail():
    may_fail.wait()
    raise ValueError("no more segments")

may_fail = threading.Event()
thread = threading.Thread(target=fail, name="segments", daemon=True)
thread.start()
end_with_any_thread("encoder")
threading.Thread(target=lambda: None).start()
print("still here", flush=True)
may_fail.set()
threading.Event().wait(20)
print("survived")
"""


def test_a_process_ends_with_any_of_its_threads_and_says_why() -> None:
    ended = subprocess.run([sys.executable, "-c", _MODEL], capture_output=True, text=True, timeout=20)
    assert ended.returncode == FAILED_STATUS
    assert ended.stdout == "still here\n"
    *trace, reason, last = ended.stderr.splitlines()
    assert trace[0] == "Traceback (most recent call last):"
    assert (reason, last) == (
        "ValueError: no more segments",
        "model encoder ends: its thread segments has failed",
    )
