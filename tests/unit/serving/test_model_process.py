"""A process of its own, since it ends."""

from __future__ import annotations

import subprocess
import sys

from talkahead.serving.model_process import FAILED_STATUS

_MODEL = """
import threading
from talkahead.serving.model_process import settle

def fail():
    may_fail.wait()
    raise ValueError("no more segments")

may_fail = threading.Event()
thread = threading.Thread(target=fail, name="segments", daemon=True)
thread.start()
settle("encoder")
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


_COLLECTED = """
import gc, weakref
from talkahead.serving.model_process import settle

class Ring:
    def __init__(self):
        self.itself = self

old = Ring()
kept = weakref.ref(old)
settle("talker")
assert gc.get_freeze_count() > 1_000
assert not any(one is old for one in gc.get_objects())
new = weakref.ref(Ring())
del old
gc.collect()
print("old" if kept() else "", "new" if new() else "")
"""


def test_what_is_there_at_the_start_is_not_looked_through_again_but_what_comes_later_is() -> None:
    ended = subprocess.run([sys.executable, "-c", _COLLECTED], capture_output=True, text=True, timeout=60)
    assert ended.stdout.split() == ["old"], ended.stderr
