"""A model's process of one replica dies or hangs: when that is known, where streams go, when it is well.

A replica is known to be sick in two ways at once: by the proxy's health checks, and by the chart's readiness
probe, which is run here as Kubernetes runs it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from enum import StrEnum

from talkahead.launcher.process_watch import model_processes

from perf.memory import server_pid
from perf.replicas.crowd import Ending, Heard
from perf.replicas.scene import Scene

MODELS = ("frontend", "encoder", "talker", "vocoder")
KNOWN_WITHIN_S = 5.0
_LOAD_S = 2.0
_PERIOD_S, _TIMEOUT_S, _FAILURES = 1.0, 2.0, 2
"""Of the chart's readiness probe."""


class Blow(StrEnum):
    """What happens to the process."""

    KILLED = "killed"
    PAUSED = "paused"

    @property
    def number(self) -> signal.Signals:
        return signal.SIGKILL if self is Blow.KILLED else signal.SIGSTOP


@dataclass(frozen=True)
class Sickness:
    """One blow.

    Args:
        known_s: until the proxy sent it no more streams.
        unready_s: until Kubernetes would not have.
        healed_s: until the proxy sent it streams again.
        struck: streams that were not whole, all of which had begun before it was known.
        lost: others that were not.
        given_again: streams that it got in the two seconds after that.
    """

    model: str
    blow: str
    known_s: float
    unready_s: float
    healed_s: float
    streams: int
    struck: int
    lost: int
    given_again: int
    heard: list[Heard]

    @property
    def is_as_promised(self) -> bool:
        return max(self.known_s, self.unready_s) <= KNOWN_WITHIN_S and self.lost == 0 < self.given_again

    def row(self) -> dict[str, str]:
        return {
            "model": self.model,
            "is": self.blow,
            "proxy knows after": f"{self.known_s:.1f} s",
            "unready after": f"{self.unready_s:.1f} s",
            "well again after": f"{self.healed_s:.0f} s",
            "then got": str(self.given_again),
            "streams": str(self.streams),
            "cut or failed of those before": str(self.struck),
            "of those after": str(self.lost),
        }


def strike(scene: Scene, model: str, blow: Blow) -> Sickness:
    """Under load; nobody but the replica's own launcher heals it."""
    over = threading.Event()
    listeners = scene.crowd.keep_speaking(over)
    time.sleep(_LOAD_S)
    readiness = _Readiness(scene.first.addresses[1])
    struck_s = time.monotonic()
    os.kill(_process(scene, model), blow.number)
    readiness.start()
    known_s = scene.await_down(0, struck_s)
    readiness.join()
    healed_s = scene.await_up(0, struck_s)
    given = scene.proxy.requests()
    time.sleep(_LOAD_S)
    over.set()
    heard = [one for listener in listeners for one in listener.result()]
    harmed = [one for one in heard if one.ending is not Ending.WHOLE]
    late = [one for one in harmed if one.asked_s > struck_s + known_s]
    return Sickness(
        model=model,
        blow=blow,
        known_s=known_s,
        unready_s=readiness.lost_s - struck_s,
        healed_s=healed_s,
        streams=len(heard),
        struck=len(harmed) - len(late),
        lost=len(late),
        given_again=scene.proxy.requests()[0] - given[0],
        heard=heard,
    )


def _process(scene: Scene, model: str) -> int:
    processes = model_processes(server_pid(scene.first.launcher))
    return next(pid for pid, name in processes if name == model)


class _Readiness(threading.Thread):
    """Ends when Kubernetes would call the replica unready; `lost_s` is when that was."""

    def __init__(self, http: str) -> None:
        super().__init__(name="readiness")
        host, _, port = http.rpartition(":")
        probe = (f"--host={host}", f"--http-port={port}", f"--deadline={_TIMEOUT_S - 0.5}")
        self._command = (sys.executable, "-m", "talkahead.launcher.probe", *probe)
        self.lost_s = 0.0

    def run(self) -> None:
        failures = 0
        while failures < _FAILURES:
            next_s = time.monotonic() + _PERIOD_S
            failures = 0 if self._is_well() else failures + 1
            if failures < _FAILURES:
                time.sleep(max(0.0, next_s - time.monotonic()))
        self.lost_s = time.monotonic()

    def _is_well(self) -> bool:
        try:
            return subprocess.run(self._command, timeout=_TIMEOUT_S, capture_output=True).returncode == 0
        except subprocess.TimeoutExpired:
            return False
