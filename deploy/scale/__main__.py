"""`python -m deploy.scale`: how many replicas hold how many listeners, and how the autoscaler takes a surge.

Simulated with SimPy from what one replica cost in `python -m perf.replicas spread`. First that measurement is
repeated, and that of two on the same cores: a simulation that misses them by more than 15 % says nothing.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # writes files, needs no screen
import simpy
from matplotlib import pyplot

from deploy.scale.autoscaler import Autoscaler, Rules
from deploy.scale.costs import CLOSED, PLAYING, Cell, Costs, read
from deploy.scale.cpu import Cpu
from deploy.scale.listeners import Crowd, repeat
from deploy.scale.replica import Replica, Stream

_FOLDER = Path(__file__).parent
TOLERANCE = 0.15
FIRST_CHUNK_LIMIT_S = 0.2
"""Of the 95th percentile, and nobody may run dry: what a replica still holds."""
_TRIED = range(8, 129, 8)
_HELD = (1_000, 100_000)
_SECONDS = 60.0
_SURGE_AT_S, _SURGE_S, _SURGE_END_S, _BIN_S = 120.0, 60.0, 480.0, 10.0
_START_S = 30.0
"""Of a replica, until the proxy sends it streams: as `python -m perf.replicas roll` sees it."""


@dataclass(frozen=True)
class Compared:
    """A measured load and its simulation. Throughput is compared where listeners ask as fast as they can."""

    replicas: int
    mode: str
    listeners: int
    first_chunk_ms: tuple[float, float]
    """Median: simulated, measured."""
    audio_s_per_s: tuple[float, float] | None

    @property
    def misses(self) -> Iterator[float]:
        for pair in (self.first_chunk_ms, self.audio_s_per_s):
            if pair is not None:
                yield abs(pair[0] / pair[1] - 1)


@dataclass(frozen=True)
class Held:
    """One replica with so many listeners who play what they hear."""

    listeners: int
    first_chunk_p95_ms: float
    dry: int
    streams: int

    @property
    def is_held(self) -> bool:
        return self.first_chunk_p95_ms <= 1e3 * FIRST_CHUNK_LIMIT_S and self.dry == 0


@dataclass(frozen=True)
class Moment:
    """Some seconds of a surge."""

    at_s: float
    listeners: int
    replicas: int
    waiting: int
    first_chunk_p95_ms: float | None


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit status: 1 where the measurement is missed."""
    parser = argparse.ArgumentParser(prog="python -m deploy.scale", description=__doc__)
    parser.add_argument("--out", type=Path, default=_FOLDER, help="folder of report and plot (%(default)s)")
    parser.add_argument("--from", type=int, default=40, dest="few", help="listeners before the surge")
    options = parser.parse_args(arguments)
    costs, cells = read()
    compared = list(compare(costs, cells))
    for one in compared:
        print(one)
    if max(miss for one in compared for miss in one.misses) > TOLERANCE:
        print(f"error: the simulation misses what was measured by more than {TOLERANCE:.0%}", file=sys.stderr)
        return 1
    playing = _of(cells, PLAYING)
    fitted = fit(costs, playing[0])
    lengths = [frames for cell in playing for part in cell.frames for frames in part]
    held = [hold(listeners, fitted, lengths) for listeners in _TRIED]
    most = max((one.listeners for one in held if one.is_held), default=0)
    replicas = {str(many): math.ceil(many / most) for many in _HELD} if most else {}
    print(f"a replica holds {most} listeners; {replicas}")
    moments = surge(fitted, lengths, options.few)
    report = {
        "compared": [asdict(one) for one in compared],
        "held": [asdict(one) for one in held],
        "listeners_a_replica": most,
        "replicas": replicas,
        "surge": [asdict(one) for one in moments],
    }
    (options.out / "scale.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    draw(compared, held, moments, options.out / "scale.png")
    return 0


def compare(costs: Costs, cells: Sequence[Cell]) -> Iterator[Compared]:
    """Each measured load. The time in which nobody works is fitted to the fewest listeners of each kind."""
    for mode in (CLOSED, PLAYING):
        own = _of(cells, mode)
        fitted = fit(costs, own[0])
        for cell in own:
            again = repeat(cell, fitted)
            yield Compared(
                replicas=cell.replicas,
                mode=mode,
                listeners=cell.listeners,
                first_chunk_ms=(1e3 * again.first_chunk_p50_s, 1e3 * cell.first_chunk_p50_s),
                audio_s_per_s=(again.audio_s_per_s, cell.audio_s_per_s) if mode == CLOSED else None,
            )


def fit(costs: Costs, alone: Cell) -> Costs:
    """As where listeners were fewest: the first chunk, and the whole stream of one who asks at once again."""
    costs = costs.beginning(alone.first_chunk_p50_s - repeat(alone, costs).first_chunk_p50_s)
    if alone.mode == PLAYING:
        return costs
    # What each utterance of the only listener took longer.
    audio_s = sum(map(sum, alone.frames)) / costs.frames_per_s / sum(map(len, alone.frames))
    after_s = audio_s / alone.audio_s_per_s - audio_s / repeat(alone, costs).audio_s_per_s
    return costs.ending(max(after_s, 0.0))


def hold(listeners: int, costs: Costs, lengths: Sequence[int]) -> Held:
    env = simpy.Environment()
    replica = Replica(env, costs, Cpu(env, costs.cores))
    crowd = Crowd(env, [replica], lengths, True, costs.frames_per_s, costs.after_s)
    for one in range(listeners):
        crowd.join(_SECONDS, 5.0 * one / listeners)
    env.run(_SECONDS)
    dry = sum(one.has_run_dry for one in crowd.heard)
    return Held(listeners, 1e3 * (_p95(crowd.heard) or math.inf), dry, len(crowd.heard))


def surge(costs: Costs, lengths: Sequence[int], few: int) -> list[Moment]:
    """Ten times as many listeners within a minute."""
    env = simpy.Environment()
    rules = Rules.of_chart(autoscaling={"maxReplicas": 100})
    scaler = Autoscaler(env, rules, lambda: Replica(env, costs, Cpu(env, costs.cores)), _START_S)
    crowd = Crowd(env, scaler.ready, lengths, True, costs.frames_per_s, costs.after_s)
    for one in range(few):
        crowd.join(_SURGE_END_S, 5.0 * one / few)
    more = 9 * few
    for one in range(more):
        crowd.join(_SURGE_END_S, _SURGE_AT_S + _SURGE_S * one / more)
    moments, at_s = [], _BIN_S
    while at_s <= _SURGE_END_S:
        env.run(at_s)
        heard = [one for one in crowd.heard if at_s - _BIN_S <= one.asked_s < at_s]
        come = few + round(more * min(max((at_s - _SURGE_AT_S) / _SURGE_S, 0.0), 1.0))
        p95 = _p95(heard)
        waiting = sum(one.queued for one in scaler.ready)
        moments.append(Moment(at_s, come, len(scaler.ready), waiting, None if p95 is None else 1e3 * p95))
        at_s += _BIN_S
    return moments


def draw(compared: Sequence[Compared], held: Sequence[Held], moments: Sequence[Moment], out: Path) -> None:
    """What is simulated over what was measured; one replica by its listeners; the surge over time."""
    figure, (first, left, right) = pyplot.subplots(1, 3, figsize=(14, 3.6), layout="constrained")
    for replicas in (1, 2):
        own = [one for one in compared if one.replicas == replicas]
        for name, marker in (("first_chunk_ms", "o"), ("audio_s_per_s", "s")):
            pairs = [(one.listeners, pair) for one in own if (pair := getattr(one, name)) is not None]
            label = f"{replicas}: {'first chunk' if name == 'first_chunk_ms' else 'throughput'}"
            ratios = [simulated / measured for _, (simulated, measured) in pairs]
            first.plot([listeners for listeners, _ in pairs], ratios, marker, label=label)
    first.axhspan(1 - TOLERANCE, 1 + TOLERANCE, alpha=0.1)
    first.set(xlabel="listeners", ylabel="simulated over measured", xscale="log", title="replicas")
    first.legend(fontsize=8)
    left.plot([one.listeners for one in held], [one.first_chunk_p95_ms for one in held], "o-")
    left.axhline(1e3 * FIRST_CHUNK_LIMIT_S, color="red", linestyle="--", linewidth=0.8)
    left.set(xlabel="listeners of one replica", ylabel="first chunk, p95 (ms)", yscale="log")
    right.plot([one.at_s for one in moments], [one.listeners for one in moments], label="listeners")
    right.plot([one.at_s for one in moments], [one.replicas for one in moments], label="replicas")
    right.plot([one.at_s for one in moments], [one.waiting for one in moments], label="waiting streams")
    told = [one for one in moments if one.first_chunk_p95_ms is not None]
    right.plot([one.at_s for one in told], [one.first_chunk_p95_ms for one in told], label="p95 (ms)")
    right.set(xlabel="seconds", yscale="symlog", title="ten times as many within a minute")
    right.legend(fontsize=8)
    figure.savefig(out, dpi=90)
    pyplot.close(figure)


def _of(cells: Sequence[Cell], mode: str) -> list[Cell]:
    """Of one replica first, then by listeners."""
    return sorted(
        (cell for cell in cells if cell.mode == mode), key=lambda cell: (cell.replicas, cell.listeners)
    )


def _p95(streams: Sequence[Stream]) -> float | None:
    waits = sorted(one.first_chunk_s for one in streams if one.first_chunk_s is not None)
    return waits[min(int(0.95 * len(waits)), len(waits) - 1)] if waits else None


if __name__ == "__main__":
    sys.exit(main())
