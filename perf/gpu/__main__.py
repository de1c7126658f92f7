"""`python -m perf.gpu`: what a GPU makes of a talker's steps: our voice's, or those of a public one's true
shape with random weights.

Forwards by streams and nodes, eager, compiled and as graphs, with the attention kernel and with torch's,
beside what reading their bytes takes at the rate that the GPU reads its memory with; attention alone, by the
kernel, scaled_dot_product_attention and FlexAttention; and whole steps, launched, with their forward as a
graph, and as one graph, plain and drafted for, in tokens a second: our voice by its own heads, others with
drafts of set acceptance. Then first chunk and continuity through the whole server. What cannot be measured on
a GPU is left out with a word. It needs one that torch can use.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, product
from operator import attrgetter
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import torch
from talkahead.backbone.checkpoint import Checkpoint
from talkahead.drafting.draft_artifact import load_drafter
from talkahead.drafting.draft_files import draft_folder
from talkahead.drafting.draft_pool import DraftOptions, DraftPool
from talkahead.speculation.contracts import Drafter
from talkahead.types import StepWay

from instruments import report
from instruments.environment import REPOSITORY, Environment
from perf.arguments import add_slices
from perf.cell import tables
from perf.gpu.attention import attentions
from perf.gpu.serving import Served
from perf.gpu.speaking import RecalledDrafter, Spoken, speak, texts
from perf.gpu.talkers import EAGER, SERVED, WAYS, DeviceTalker, Sizes, milliseconds, read_rate
from perf.served_shapes import KIND as SERVED_SHAPES
from perf.shapes.public_shapes import PUBLIC_SHAPES
from perf.shapes.random_checkpoint import write_random_checkpoint

NO_GPU = "perf.gpu measures a GPU, and torch finds none here (torch.cuda.is_available() is false)."
FORWARD, ATTENTION, STEP = "forward", "attention", "step"
OUR_VOICE, TALKER = "our-voice", REPOSITORY / "talker" / "1"
_LAUNCHED = {
    StepWay.EAGER: "launched",
    StepWay.FORWARD: "forward a graph",
    StepWay.STEP: "one graph",
}


@dataclass(frozen=True)
class Timed:
    """
    Args:
        part: `forward`, `attention` of one layer, or `step`: a forward with all that the loop does about it.
        way: how it is computed; of steps also what is drafted.
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
    repository, device = _repository(options), torch.device("cuda:0")
    environment = Environment.record(repository).drafting(repository, ["heads+match"])
    gpu = torch.cuda.get_device_name(device)
    torch.manual_seed(0)
    rate = read_rate(device)
    print(f"{gpu} reads {rate / 1e9:,.0f} GB a second", file=sys.stderr, flush=True)
    settings = {"gpu": gpu, "shape": options.shape, "read_rate_gb_s": rate / 1e9, **_settings(options)}
    timed: list[Timed] = []
    for _, ones in groupby(measure(_checkpoint(options), device, rate, options), attrgetter("way")):
        timed += ones
        report.save(options.out, "gpu", environment, settings, timed)  # of a machine that may be taken away
    print(f"{options.shape} on {gpu}:\n\n{report.markdown(list(summary(timed)))}")
    if options.streams:
        _measure_server(settings, options)
    return 0


def _measure_server(settings: Mapping[str, object], options: argparse.Namespace) -> None:
    is_ours = options.shape == OUR_VOICE
    served = Served.our_voice() if is_ours else Served.public(options.shape, options.served / options.shape)
    repository = _repository(options)
    environment = Environment.record(repository)
    with TemporaryDirectory() as scratch:
        cells = list(served.measure(options.streams, options.seconds, options.slices, Path(scratch)))
    if not cells:
        print("the server: left out, for nothing was spoken; its log says why", file=sys.stderr)
        return
    print(f"\n{tables(cells)}")
    environment = environment.drafting(repository, {pair for one in cells for pair in one.pairs})
    kind = "gpu-server" if is_ours else SERVED_SHAPES
    report.save(options.server_out, kind, environment, settings, cells)


def _repository(options: argparse.Namespace) -> Path | None:
    """Of the weights that are measured; None of random ones."""
    return REPOSITORY if options.shape == OUR_VOICE else None


def _checkpoint(options: argparse.Namespace) -> Checkpoint:
    if options.shape == OUR_VOICE:
        return Checkpoint(TALKER)
    folder = options.folder / options.shape
    write_random_checkpoint(PUBLIC_SHAPES[options.shape], folder)
    return Checkpoint(folder)


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
    """Everything, attention alone last; one talker is on the device at a time."""
    sizes = Sizes(
        options.cache, options.steps * max(options.nodes) + 1, max(options.rows), max(options.nodes)
    )
    for way in WAYS:
        print(f"{way.name}: loading", file=sys.stderr, flush=True)
        talker = DeviceTalker(checkpoint, way, sizes, device)
        if talker.is_as_named:
            yield from _forwards(talker, way.name, rate, options)
            if way is EAGER:
                yield from _steps(talker, StepWay.EAGER, options)
            if way is SERVED:
                yield from _steps(talker, StepWay.FORWARD, options)
                yield from _steps(talker, StepWay.STEP, options)
        else:
            print(f"{way.name}: left out, for the device refuses it", file=sys.stderr, flush=True)
        del talker
        gc.collect()
        torch.cuda.empty_cache()
    yield from _attentions(checkpoint, device, options)


def _attentions(checkpoint: Checkpoint, device: torch.device, options: argparse.Namespace) -> Iterator[Timed]:
    for rows, nodes in product(options.rows, options.nodes):
        found = attentions(checkpoint.config, rows, nodes, options.cache, 2 * options.cache, device)
        for name, call in found:
            if samples := _samples(name, call, device, options.repeats):
                yield Timed(ATTENTION, name, rows, nodes, samples)


def _forwards(talker: DeviceTalker, way: str, rate: float, options: argparse.Namespace) -> Iterator[Timed]:
    talker.fill()
    for rows, nodes in product(options.rows, options.nodes):
        if samples := _samples(way, talker.step(rows, nodes), talker.device, options.repeats):
            limit = 1e3 * talker.bytes_read(rows) / rate
            yield Timed(FORWARD, way, rows, nodes, samples, limit_ms=limit)


def _steps(talker: DeviceTalker, way: StepWay, options: argparse.Namespace) -> Iterator[Timed]:
    """Random weights say what they say for so long as there is room; our voice speaks texts, and draws on
    after their ends."""
    is_ours, is_recorded = options.shape == OUR_VOICE, way is StepWay.STEP
    prompts = texts(options.cache) if is_ours else ()
    for rows in options.rows:
        plain = speak(talker, rows, options.steps, prompts=prompts, is_recorded=is_recorded)
        yield _step("plain", way, rows, 1, plain, options)
        drafts = _own_heads if is_ours else _recalled
        for nodes, told, drafter in drafts(talker, rows, options):
            drafted = speak(talker, rows, options.steps, drafter, prompts, is_recorded=is_recorded)
            yield _step(told, way, rows, nodes, drafted, options)


def _step(
    told: str, way: StepWay, rows: int, nodes: int, spoken: Spoken, options: argparse.Namespace
) -> Timed:
    rate = spoken.tokens_per_s(rows, options.steps)
    return Timed(STEP, f"{told}, {_LAUNCHED[way]}", rows, nodes, spoken.steps_ms, tokens_per_s=rate)


def _recalled(
    talker: DeviceTalker, rows: int, options: argparse.Namespace
) -> Iterator[tuple[int, str, Drafter]]:
    """Nodes, name and drafter of each size, of what plain decoding says in as many steps as the longest draft
    may save."""
    said = speak(talker, rows, options.steps * max(options.nodes)).tokens
    for nodes in (one for one in options.nodes if one > 1):
        yield nodes, f"drafts {options.right:.0%} right", RecalledDrafter(said, nodes - 1, options.right)


def _own_heads(
    talker: DeviceTalker, _rows: int, options: argparse.Namespace
) -> Iterator[tuple[int, str, Drafter]]:
    pool = DraftPool.serving(talker.sizes.rows, talker.decoder.max_positions, str(talker.device))
    for nodes in (one for one in options.nodes if one > 1):
        asked = DraftOptions(nodes, returns_probs=False)
        yield nodes, "its own heads", load_drafter(draft_folder(TALKER, "heads"), TALKER, pool, asked)


def _samples(name: str, call: Callable[[], object], device: torch.device, repeats: int) -> list[float]:
    """None, and a word, where the device cannot do it."""
    try:
        for _ in range(3):
            call()
        return [milliseconds(call, device) for _ in range(repeats)]
    except (
        Exception
    ) as error:  # whatever compilers and drivers may raise: the others are measured none the less
        reason = (str(error).splitlines() or [""])[0]
        print(f"{name}: left out: {type(error).__name__}: {reason}", file=sys.stderr, flush=True)
        return []


def _settings(options: argparse.Namespace) -> Mapping[str, object]:
    return {name: getattr(options, name) for name in ("cache", "repeats", "steps", "right")}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m perf.gpu", description=__doc__)
    add = parser.add_argument
    add("--shape", choices=[OUR_VOICE, *PUBLIC_SHAPES], default="llasa-1b", help="(%(default)s)")
    add("--folder", type=Path, default=Path("build/shapes"), help="for the random weights (%(default)s)")
    add("--cache", type=int, default=512, help="positions after each stream (%(default)s)")
    add("--rows", type=int, nargs="+", default=[1, 8, 32, 64], help="streams (%(default)s)")
    add("--nodes", type=int, nargs="+", default=[1, 2, 4, 8], help="of each one's tree (%(default)s)")
    add("--steps", type=int, default=60, help="of speaking (%(default)s)")
    add("--right", type=float, default=0.6, help="the share of drafted tokens that are right (%(default)s)")
    add("--repeats", type=int, default=20, help="(%(default)s)")
    server = parser.add_argument_group("the whole server")
    server.add_argument("--served", type=Path, default=Path("build/served_shapes"),
                        help="for repositories of random weights (%(default)s)")  # fmt: skip
    server.add_argument("--streams", type=int, nargs="*", default=[1, 8, 32, 64], metavar="N",
                        help="that play; none: no server is started")  # fmt: skip
    add_slices(server, seconds=40.0)
    server.add_argument("--server-out", type=Path, default=Path("perf/results/gpu-server.json"),
                        help="(%(default)s)")  # fmt: skip
    add("--out", type=Path, default=Path("perf/results/gpu.json"), help="(%(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
