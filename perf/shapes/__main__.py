"""`python -m perf.shapes`: what a step of a public talker costs at its true shape, by streams and nodes.

Random weights (written once, kept in `--folder`), KV of `--cache` positions in every slot. A step of a talker
of this size is bound by the bytes that it reads, so that nodes of a draft are nearly free. Beside it: the
time that reading the weights alone takes, at the rate that so many threads read memory with here, and
llama.cpp (the extra `llama`) on the same weights and as many threads. Its nodes are a chain, ours a tree.
Engines are loaded one after another, as memory would run out; what one does is measured by turns, in seconds
of the thread's own where there is one, else of the clock.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from statistics import median

import torch
from talkahead.backbone.decoder_choice import Precision
from talkahead.backbone.native_decoder import can_multiply
from talkahead.engine.decode_step import step_clock

from instruments import report
from instruments.environment import Environment
from perf.arguments import at_least
from perf.shapes.forward import Call, Forward, OurForward
from perf.shapes.public_shapes import PUBLIC_SHAPES
from perf.shapes.random_checkpoint import write_random_checkpoint

OURS, LLAMA_CPP = "talkahead", "llama.cpp"
PREFILL = "prefill"
_GIB = 1 << 30


@dataclass(frozen=True)
class Timed:
    """Time of one kind of forward.

    Args:
        part: `step` (of `nodes` for each of `rows` streams) or `prefill` (of the whole cache, into one slot).
        bytes_ms: what reading the weights alone takes.
        memory_gib: of weights, keys and values, by counting.
    """

    shape: str
    engine: str
    precision: str
    part: str
    rows: int
    nodes: int
    p50_ms: float
    bytes_ms: float
    memory_gib: float
    samples_ms: list[float]


@dataclass(frozen=True)
class _Engine:
    """One that can be loaded: one at a time is, or memory would run out."""

    name: str
    precision: str
    load: Callable[[], Forward]


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    environment = Environment.record(repository=None)
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    config, folder = PUBLIC_SHAPES[options.shape], options.folder / options.shape
    print(f"{options.shape}: weights in {folder}", file=sys.stderr, flush=True)
    write_random_checkpoint(config, folder)
    rate = read_rate()
    print(f"{options.threads} threads read {rate / 1e9:.1f} GB a second", file=sys.stderr, flush=True)
    timed = [one for engine in _engines(folder, options) for one in _measure(engine, rate, options)]
    print(report.markdown(list(summary(timed))))
    settings = {"cache": options.cache, "repeats": options.repeats, "threads": options.threads}
    report.save(options.out, "shapes", environment, {**settings, "read_rate_gb_s": rate / 1e9}, timed)
    return 0


def summary(timed: Sequence[Timed]) -> Iterator[dict[str, str]]:
    """One row for each engine, precision and number of streams; nodes are in plain steps."""
    steps = {(one.engine, one.precision, one.rows, one.nodes): one for one in timed if one.part != PREFILL}
    prefills = {(one.engine, one.precision): one for one in timed if one.part == PREFILL}
    sizes = sorted({one.nodes for one in steps.values()})
    for engine, precision, rows in dict.fromkeys(
        (one.engine, one.precision, one.rows) for one in steps.values()
    ):
        plain = steps[engine, precision, rows, 1]
        yield {
            "engine": engine,
            "precision": precision,
            "memory": f"{plain.memory_gib:.2f} GiB",
            "prefill": f"{prefills[engine, precision].p50_ms:,.0f} ms",
            "streams": str(rows),
            "step": f"{plain.p50_ms:,.1f} ms",
            "weights alone": f"{plain.bytes_ms:,.1f} ms",
            "tokens/s": f"{1e3 * rows / plain.p50_ms:,.1f}",
            **{
                f"{nodes} nodes": f"{steps[engine, precision, rows, nodes].p50_ms / plain.p50_ms:.2f}"
                for nodes in sizes[1:]
            },
        }


def read_rate(num_bytes: int = _GIB, repeats: int = 5) -> float:
    """Bytes a second that torch's threads read from memory, at best."""
    values = torch.ones(num_bytes // 8, dtype=torch.float64)
    return num_bytes / min(_seconds(values.sum) for _ in range(repeats))


def _engines(folder: Path, options: argparse.Namespace) -> Iterator[_Engine]:
    sizes = (options.cache, max(options.rows), max(options.nodes))
    for precision in options.precisions:
        if can_multiply(precision.dtype):
            yield _Engine(OURS, precision, partial(OurForward, folder, precision, *sizes))
    if find_spec("llama_cpp") is None or find_spec("gguf") is None:
        print("llama.cpp, the extra `llama`, is missing: its rows stay away", file=sys.stderr)
        return
    from perf.shapes.llama_cpp_forward import PRECISIONS, LlamaCppForward

    for kind in PRECISIONS:
        yield _Engine(
            LLAMA_CPP, kind, partial(LlamaCppForward, folder, kind, *sizes, threads=options.threads)
        )


def _measure(engine: _Engine, rate: float, options: argparse.Namespace) -> list[Timed]:
    gc.collect()  # the one before holds on to itself
    forward = engine.load()
    cells = list(product(options.rows, options.nodes))
    calls = {(rows, nodes): forward.step(rows, nodes) for rows, nodes in cells} | {(1, 0): forward.prefill()}
    samples: dict[tuple[int, int], list[float]] = {cell: [] for cell in calls}
    for repeat in range(options.repeats):
        print(
            f"{engine.name} {engine.precision}: repeat {repeat + 1}/{options.repeats}",
            file=sys.stderr,
            flush=True,
        )
        for cell, call in calls.items():
            samples[cell].append(1e3 * _seconds(call))
    found = [
        Timed(
            *(options.shape, engine.name, str(engine.precision), "step" if nodes else PREFILL, rows, nodes),
            *(median(own), 1e3 * forward.weight_bytes / rate, forward.memory_bytes / _GIB, own),
        )
        for (rows, nodes), own in samples.items()
    ]
    forward.close()
    return found


def _seconds(call: Call) -> float:
    clock = step_clock(torch.device("cpu"))
    began = clock()
    call()
    return clock() - began


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m perf.shapes", description=__doc__)
    add = parser.add_argument
    add("--shape", choices=PUBLIC_SHAPES, default="llasa-1b", help="(%(default)s)")
    add("--folder", type=Path, default=Path("build/shapes"), help="for the random weights (%(default)s)")
    add("--cache", type=int, default=256, help="positions after each stream (%(default)s)")
    add("--rows", type=int, nargs="+", default=[1, 4, 16], help="streams (%(default)s)")
    add("--nodes", type=int, nargs="+", default=[1, 2, 4, 8, 16], help="of each one's tree (%(default)s)")
    add("--precisions", type=Precision, nargs="+", default=[Precision.BFLOAT16, Precision.INT8],
        help="of ours (bfloat16 int8)")  # fmt: skip
    add("--threads", type=at_least(1), default=1, help="that share a forward (%(default)s)")
    add("--repeats", type=int, default=7, help="(%(default)s)")
    add("--out", type=Path, default=Path("perf/results/shapes.json"), help="(%(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
