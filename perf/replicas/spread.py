"""What one replica speaks, and what two do behind the proxy, each of them on half of the cores.

Twice the replicas have twice the cores and the listeners, as in a cluster of equal machines. Listeners and
proxy run on the same cores, for there are no others.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from instruments.server import Server
from perf.cell import Cell
from perf.replicas.scene import Scene
from perf.streams import Load, Mode
from perf.turns import Configuration, by_turns

LISTENERS = {Mode.CLOSED: (1, 4, 16), Mode.PLAYING: (1, 4)}
"""Of each replica."""


@dataclass(frozen=True)
class Loaded:
    """So many replicas under one load."""

    replicas: int
    cell: Cell

    @property
    def is_as_promised(self) -> bool:
        """Nobody's stream failed."""
        return self.cell.spoken > 0 == self.cell.failed

    def row(self) -> dict[str, str]:
        return {
            "replicas": str(self.replicas),
            "mode": self.cell.mode,
            "listeners": str(self.cell.streams),
            "spoken": str(self.cell.spoken),
            "failed": str(self.cell.failed),
            "first chunk p50": f"{self.cell.first_chunk_ms.p50:.1f} ms",
            "p95": f"{self.cell.first_chunk_ms.p95:.1f} ms",
            "audio s/s": f"{self.cell.audio_s_per_s:.1f}",
            "ran dry": str(self.cell.ran_dry),
        }


def spread(scene: Scene, seconds: float, slices: int) -> Iterator[Loaded]:
    """One replica, asked without the proxy, then both. The other one stays on its own cores meanwhile.

    Args:
        seconds, slices: of each load, as `python -m perf.latency` has them.
    """
    whole = os.sched_getaffinity(0)
    for server, cores in (
        (scene.first.server, set(scene.first.cores)),
        (Server(scene.proxy.address, None), whole),
    ):
        replicas = 1 if server is scene.first.server else len(scene.replicas)
        configuration = Configuration(f"{replicas} of {len(scene.replicas)} replicas", server, {})
        for mode, numbers in LISTENERS.items():
            for listeners in numbers:
                load = Load(mode, replicas * listeners, seconds, None, {})
                with _on(cores):
                    (cell,) = by_turns([configuration], load, slices)
                yield Loaded(replicas, cell)


@contextlib.contextmanager
def _on(cores: set[int]) -> Iterator[None]:
    """All threads of this process, and those that it starts meanwhile."""
    before = os.sched_getaffinity(0)
    _move(cores)
    try:
        yield
    finally:
        _move(before)


def _move(cores: set[int]) -> None:
    for thread in Path("/proc/self/task").iterdir():
        with contextlib.suppress(ProcessLookupError):  # it has just ended
            os.sched_setaffinity(int(thread.name), cores)
