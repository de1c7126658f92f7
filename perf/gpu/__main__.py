"""`python -m perf.gpu`: what a GPU makes of a public talker's steps, at its true shape, with random weights.

Forwards by streams and nodes, eager and as graphs, with the attention kernel and with torch's, beside what
reading their bytes takes at the rate that the GPU reads its memory with; attention alone; and whole steps,
plain and with drafts of set acceptance, in tokens a second. It needs a GPU that torch can use.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import median

import torch
from talkahead.backbone.checkpoint import Checkpoint

from instruments import report
from instruments.environment import Environment
from perf.gpu.attention import attentions
from perf.gpu.speaking import RecalledDrafter, speak
from perf.gpu.talkers import SERVED, WAYS, DeviceTalker, Sizes, milliseconds, read_rate
from perf.shapes.public_shapes import PUBLIC_SHAPES
from perf.shapes.random_checkpoint import write_random_checkpoint

NO_GPU = "perf.gpu measures a GPU, and torch finds none here (torch.cuda.is_available() is false)."
FORWARD, ATTENTION, STEP = "forward", "attention", "step"


@dataclass(frozen=True)
class Timed:
    """
    Args:
        part: `forward`, `attention` of one layer, or `step`: a forward with all that the loop does about it.
        way: how it is computed; of steps, how much is drafted.
        limit_ms: what reading the bytes takes; None where that was not counted.
        tokens_per_s: of all streams; None but for steps.
    """

    part: str
    way: str
    rows: int
    nodes: int
    samples_ms: list[float]
    limit_ms: float | None = None
    tokens_per_s: float | None = None

    @property
    def p50_ms(self) -> float:
        return median(self.samples_ms)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    if not torch.cuda.is_available():
        print(NO_GPU, file=sys.stderr)
        return 1
    environment, device = Environment.record(repository=None), torch.device("cuda:0")
    gpu = torch.cuda.get_device_name(device)
    folder = options.folder / options.shape
    torch.manual_seed(0)
    write_random_checkpoint(PUBLIC_SHAPES[options.shape], folder)
    rate = read_rate(device)
    print(f"{gpu} reads {rate / 1e9:,.0f} GB a second", file=sys.stderr, flush=True)
    timed = list(measure(Checkpoint(folder), device, rate, options))
    settings = {"gpu": gpu, "shape": options.shape, "read_rate_gb_s": rate / 1e9, **_settings(options)}
    print(f"{options.shape} on {gpu}:\n\n{report.markdown(list(summary(timed)))}")
    report.save(options.out, "gpu", environment, settings, timed)
    return 0


def summary(timed: Sequence[Timed]) -> Iterator[dict[str, str]]:
    """One row for each measurement."""
    for one in timed:
        yield {
            "what": one.part,
            "way": one.way,
            "streams": str(one.rows),
            "nodes": str(one.nodes),
            "ms": f"{one.p50_ms:.3f}",
            "its bytes alone": "" if one.limit_ms is None else f"{one.limit_ms:.3f}",
            "tokens/s": "" if one.tokens_per_s is None else f"{one.tokens_per_s:,.0f}",
        }


def measure(
    checkpoint: Checkpoint, device: torch.device, rate: float, options: argparse.Namespace
) -> Iterator[Timed]:
    """Everything; one talker is on the device at a time."""
    yield from _attentions(checkpoint, device, options)
    sizes = Sizes(
        options.cache, options.steps * max(options.nodes) + 1, max(options.rows), max(options.nodes)
    )
    for way in WAYS:
        print(f"{way.name}: loading", file=sys.stderr, flush=True)
        talker = DeviceTalker(checkpoint, way, sizes, device)
        yield from _forwards(talker, way.name, rate, options)
        if way is SERVED:
            yield from _steps(talker, options)
        del talker
        gc.collect()
        torch.cuda.empty_cache()


def _attentions(checkpoint: Checkpoint, device: torch.device, options: argparse.Namespace) -> Iterator[Timed]:
    for rows, nodes in product(options.rows, options.nodes):
        found = attentions(checkpoint.config, rows, nodes, options.cache, 2 * options.cache, device)
        for name, call in found:
            yield Timed(ATTENTION, name, rows, nodes, _samples(call, device, options.repeats))


def _forwards(talker: DeviceTalker, way: str, rate: float, options: argparse.Namespace) -> Iterator[Timed]:
    talker.fill()
    for rows, nodes in product(options.rows, options.nodes):
        samples = _samples(talker.step(rows, nodes), talker.device, options.repeats)
        limit = 1e3 * talker.bytes_read(rows) / rate
        yield Timed(FORWARD, way, rows, nodes, samples, limit_ms=limit)


def _steps(talker: DeviceTalker, options: argparse.Namespace) -> Iterator[Timed]:
    for rows in options.rows:
        # As many as the longest draft may say in as many steps, of which the first ones are timed.
        plain = speak(talker, rows, options.steps)
        recalled = speak(talker, rows, options.steps * max(options.nodes)).tokens
        rate = plain.tokens_per_s(rows, options.steps)
        yield Timed(STEP, "plain", rows, 1, plain.steps_ms, tokens_per_s=rate)
        for nodes in (one for one in options.nodes if one > 1):
            drafted = speak(talker, rows, options.steps, RecalledDrafter(recalled, nodes - 1, options.right))
            way, rate = f"drafts {options.right:.0%} right", drafted.tokens_per_s(rows, options.steps)
            yield Timed(STEP, way, rows, nodes, drafted.steps_ms, tokens_per_s=rate)


def _samples(call: Callable[[], object], device: torch.device, repeats: int) -> list[float]:
    for _ in range(3):
        call()
    return [milliseconds(call, device) for _ in range(repeats)]


def _settings(options: argparse.Namespace) -> Mapping[str, object]:
    return {name: getattr(options, name) for name in ("cache", "repeats", "steps", "right")}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m perf.gpu", description=__doc__)
    add = parser.add_argument
    add("--shape", choices=PUBLIC_SHAPES, default="llasa-1b", help="(%(default)s)")
    add("--folder", type=Path, default=Path("build/shapes"), help="for the random weights (%(default)s)")
    add("--cache", type=int, default=512, help="positions behind each stream (%(default)s)")
    add("--rows", type=int, nargs="+", default=[1, 8, 32, 64], help="streams (%(default)s)")
    add("--nodes", type=int, nargs="+", default=[1, 2, 4, 8], help="of each one's tree (%(default)s)")
    add("--steps", type=int, default=60, help="of speaking (%(default)s)")
    add("--right", type=float, default=0.6, help="the share of drafted tokens that are right (%(default)s)")
    add("--repeats", type=int, default=20, help="(%(default)s)")
    add("--out", type=Path, default=Path("perf/results/gpu.json"), help="(%(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
