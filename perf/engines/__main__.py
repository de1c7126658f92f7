"""`python -m perf.engines`: what each engine of a repository's models does a second, side by side in one run.

The codec's windows by their new frames and how many are decoded together; the prompt encoder's prompts by
their symbols; the talker's steps by streams and nodes; and, with --streams, the whole server with each engine
of the codec: first chunks and real-time factors, by turns in slices. One thread computes each pass, and a
round is one pass of every engine at every size. Engines that are not here, or were not exported, are left out
by name; the first one is what the others are compared with.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

import torch
from talkahead.errors import TalkaheadError
from talkahead.families.contracts import TORCH
from talkahead.families.native_engine import NATIVE
from talkahead.families.onnx_network import ONNXRUNTIME
from talkahead.families.openvino_network import OPENVINO
from talkahead.native_library import NativeUnavailable

from instruments import report
from instruments.environment import REPOSITORY, Environment
from perf import cell
from perf.arguments import add_slices, at_least
from perf.cell import Cell
from perf.engines import codec_passes, prompt_passes, talker_passes
from perf.engines.codec_passes import CodecPasses
from perf.engines.prompt_passes import PromptPasses
from perf.engines.served_engines import measure_served
from perf.engines.talker_passes import TalkerPasses
from perf.engines.timing import Case, Pass, Timing, table, time_by_turns

ENGINES = (TORCH, NATIVE, ONNXRUNTIME, OPENVINO)
PARTS = (codec_passes.PART, prompt_passes.PART, talker_passes.PART)
_UNITS = dict(
    zip(PARTS, ("windows by new frames", "prompts by symbols", "steps of streams by nodes"), strict=True)
)

Passes = Iterator[tuple[Case, Pass]]


class _Engine(Protocol):
    def passes(self) -> Passes: ...


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    torch.set_num_threads(1)
    environment = Environment.record(options.repository)
    timings: list[Timing] = []
    for part in options.parts:
        print(f"{part}: loading", file=sys.stderr, flush=True)
        passes = dict(_passes(part, options))
        timings += time_by_turns(passes, options.rounds)
        print(f"{part}: {_UNITS[part]}, a second (of {timings[-len(passes)].case.engine}'s)\n")
        print(table(timings[-len(passes) :]) + "\n")
    cells = _served(options, timings)
    drafted = environment.drafting(options.repository, {pair for one in cells for pair in one.pairs})
    settings = {name: getattr(options, name) for name in ("rounds", "seconds", "slices")}
    report.save(options.out, "engines", drafted, settings, [*timings, *cells])
    return 1 if any(one.failed for one in cells) else 0


def _passes(part: str, options: argparse.Namespace) -> Passes:
    """Of all engines that can be had."""
    for name, load in _loaders(part, options):
        try:
            yield from load().passes()
        except (TalkaheadError, NativeUnavailable) as error:
            print(f"{part} by {name} is left out: {error}", file=sys.stderr, flush=True)


def _loaders(part: str, options: argparse.Namespace) -> Iterator[tuple[str, Callable[[], _Engine]]]:
    """Engines by name, and what loads them."""
    repository = options.repository
    if part == talker_passes.PART:
        for decoder, precision in talker_passes.ENGINES:
            yield f"{decoder} in {precision}", partial(TalkerPasses, repository, decoder, precision)
    for engine in options.engines if part != talker_passes.PART else ():
        if part == codec_passes.PART:
            yield engine, partial(CodecPasses, repository / "vocoder" / "1", engine, options.batches)
        else:
            yield engine, partial(PromptPasses, repository, engine)


def _served(options: argparse.Namespace, timings: Sequence[Timing]) -> list[Cell]:
    """With every engine of the codec that was timed; without --streams, nothing."""
    engines = list(dict.fromkeys(one.case.engine for one in timings if one.case.part == codec_passes.PART))
    if not options.streams or not engines:
        return []
    cells = measure_served(options.repository, engines, options.streams, options.seconds, options.slices)
    print(cell.tables(cells))
    return cells


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m perf.engines", description=__doc__)
    add = parser.add_argument
    add("--repository", type=Path, default=REPOSITORY, help="(%(default)s)")
    add("--parts", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART", help="(all)")
    add("--engines", nargs="+", choices=ENGINES, default=list(ENGINES), metavar="ENGINE", help="(all)")
    add(
        "--batches", type=at_least(1), nargs="+", default=[1, 4, 8, 16], metavar="N", help="windows of a pass"
    )
    add("--rounds", type=at_least(1), default=30, help="(%(default)s)")
    add(
        "--streams",
        type=at_least(1),
        nargs="*",
        default=[],
        metavar="N",
        help="closed ones, of whole servers",
    )
    add_slices(parser, seconds=40.0)
    add("--out", type=Path, default=Path("perf/results/engines.json"), help="(%(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
