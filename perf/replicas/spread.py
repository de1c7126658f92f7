"""What two replicas speak together behind the proxy, and what one does alone, on the same cores.

Beside what listeners notice stands what it cost: seconds of a core by model, and how often each did its work.
From one replica's costs, `deploy.scale` foretells what two do.
"""

from __future__ import annotations

import os
import re
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from talkahead.launcher.process_watch import model_processes

from instruments.server import Server
from perf import stages
from perf.cell import Cell
from perf.memory import server_pid
from perf.replicas.replica import Replica
from perf.replicas.scene import Scene
from perf.streams import Load, Mode
from perf.turns import Configuration, by_turns

CLOSED = (1, 4, 16)
"""Listeners, in all."""
PLAYING = (2, 8)
"""Of each replica: one that is asked more seldom has colder caches."""
_CLOSED_SHARE = 0.4
"""Of the time: they ask more often."""
REST = "rest"
"""Triton, the proxy and the listeners, whose processes are no model's."""
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Work:
    """What replicas did, warming up and health checks included.

    Args:
        cpu_s: of each model's processes, and of the `REST`.
        passes: of encoder and vocoder, and steps of the talker, as the metrics page counts them.
        rows: streams of all steps, one by one; `tokens` is what those were given.
        windows: that the codec decoded.
    """

    cpu_s: dict[str, float]
    passes: dict[str, int]
    rows: int
    tokens: int
    windows: int

    def since(self, earlier: Work) -> Work:
        return Work(
            cpu_s={model: spent - earlier.cpu_s[model] for model, spent in self.cpu_s.items()},
            passes={stage: count - earlier.passes.get(stage, 0) for stage, count in self.passes.items()},
            rows=self.rows - earlier.rows,
            tokens=self.tokens - earlier.tokens,
            windows=self.windows - earlier.windows,
        )


@dataclass(frozen=True)
class Loaded:
    """So many replicas under one load; new requests came for `slice_s` in each slice."""

    replicas: int
    slice_s: float
    work: Work
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
            "core s": f"{sum(self.work.cpu_s.values()):.1f}",
        }


def spread(scene: Scene, seconds: float, slices: int) -> Iterator[Loaded]:
    """Both, then the first alone.

    Args:
        seconds, slices: of each load of listeners who play, as `python -m perf.latency` has them.
    """
    yield from _loaded(scene, scene.replicas, seconds, slices)
    stopped_s = time.monotonic()
    scene.second.stop()
    scene.await_down(1, stopped_s)
    yield from _loaded(scene, [scene.first], seconds, slices)


def _loaded(scene: Scene, replicas: Sequence[Replica], seconds: float, slices: int) -> Iterator[Loaded]:
    number = len(replicas)
    configuration = Configuration(f"{number} replicas", Server(scene.proxy.address, None), {})
    loads = [(Mode.CLOSED, listeners, _CLOSED_SHARE * seconds) for listeners in CLOSED]
    loads += [(Mode.PLAYING, listeners * number, seconds) for listeners in PLAYING]
    for mode, listeners, load_s in loads:
        earlier = _work(replicas)
        (cell,) = by_turns([configuration], Load(mode, listeners, load_s, None, {}), slices)
        yield Loaded(number, load_s / slices, _work(replicas).since(earlier), cell)


def _work(replicas: Sequence[Replica]) -> Work:
    models = {pid: model for one in replicas for pid, model in model_processes(server_pid(one.launcher))}
    cpu_s: defaultdict[str, float] = defaultdict(float)
    for pid, spent_s in _spent_s().items():
        cpu_s[models.get(pid, REST)] += spent_s
    pages = [one.server.metrics_page() for one in replicas]
    return Work(
        cpu_s=dict(cpu_s),
        passes={
            "encoder": sum(int(stages.read(page)["encoder"].counts[-1]) for page in pages),
            "step": _total(pages, "talkahead_steps_total"),
            "vocoder": _total(pages, "talkahead_codec_passes_total"),
        },
        rows=_total(pages, "talkahead_target_steps_total"),
        tokens=_total(pages, "talkahead_committed_tokens_total"),
        windows=_total(pages, "talkahead_windows_total"),
    )


def _total(pages: Sequence[str], metric: str) -> int:
    lines = (line for page in pages for line in page.splitlines() if re.match(rf"{metric}[{{ ]", line))
    return sum(int(float(line.rpartition(" ")[2])) for line in lines)


def _spent_s() -> dict[int, float]:
    """Seconds of a core, by process: of this one and of all that it has started, directly or not."""
    spent, parents = {}, {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                text = (folder / "stat").read_text(encoding="utf-8", errors="replace")
            except (FileNotFoundError, ProcessLookupError):
                continue
            # After the name, which may hold anything: state, parent, ..., user and system time.
            fields = text.rpartition(")")[2].split()
            parents[int(folder.name)] = int(fields[1])
            spent[int(folder.name)] = (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
    return {pid: seconds for pid, seconds in spent.items() if _is_ours(pid, parents)}


def _is_ours(pid: int, parents: Mapping[int, int]) -> bool:
    while pid not in (os.getpid(), 0):
        pid = parents.get(pid, 0)
    return pid != 0
