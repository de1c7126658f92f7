"""`python -m perf.costing`: what a step of the native decoder costs, by talker shape, streams and nodes.

Random weights of each shape, KV of `--cache` positions, one thread. Times are the thread's own CPU seconds,
so that a busy machine shows through its caches and clock alone; cells of all shapes are measured by turns,
and ratios are to be read within one run. Heads are one product of the same decoder over all their weights.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from statistics import median

import torch
from talkahead.backbone.decoder_choice import Precision
from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.backbone.llama import Llama
from talkahead.backbone.native_decoder import NativeDecoder
from talkahead.speculation.draws import stream_keys
from talkahead.speculation.rows import Rows
from talkahead.speculation.sampling import SamplingSettings, draw
from talkahead.speculation.token_tree import ROOT_PARENT, TokenTree, TreeShape

from instruments import report
from instruments.environment import REPOSITORY, Environment
from instruments.talker_shape import Shape
from perf.arguments import add_precision

ROWS = (1, 4, 16)
NODES = (1, 2, 4, 8, 16, 32, 64)
DRAFT_LAYERS = (1, 2, 3)
HEADS = 4
HEAD_CANDIDATES = 10
"""Tokens of each head that a tree may use."""
_FANOUT = 3
_LOGIT_SPREAD = 3.0
"""Standard deviation of the logits that are drawn from: about 3 nats, as a trained talker's."""
_SAMPLE_S = 2e-3
"""A sample lasts at least this long: short calls are repeated inside it."""

Call = Callable[[], object]


@dataclass(frozen=True)
class Cost:
    """One part's CPU time for `rows` streams.

    Args:
        part: `step` (forward of `size` nodes a stream), `draw` (a token after each of `size` nodes), `draft`
            (a step of the first `size` layers with the head), `heads` (`size` residual heads and their best
            tokens).
    """

    shape: str
    parameters: int
    part: str
    rows: int
    size: int
    p50_ms: float
    min_ms: float
    samples_ms: list[float]


@dataclass(frozen=True)
class _Cell:
    shape: Shape
    part: str
    rows: int
    size: int
    call: Call


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    environment = Environment.record(repository=None)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    cells = [
        cell for shape in options.shapes for cell in _cells(shape, options.cache, options.precision.dtype)
    ]
    costs = measure(cells, options.repeats)
    print(report.markdown(list(summary(costs))))
    settings = {
        "cache": options.cache,
        "repeats": options.repeats,
        "precision": options.precision,
        "clock": "CPU time of the thread",
        "heads": HEADS,
        "head_candidates": HEAD_CANDIDATES,
        "heads_as": "one native product of width -> heads * (width + vocabulary), then torch.topk",
        "tree": f"every node has {_FANOUT} children",
    }
    report.save(options.out, "costing", environment, settings, costs)
    return 0


def measure(cells: Sequence[_Cell], repeats: int) -> list[Cost]:
    """Times all cells by turns; before and after a cell comes the same cell of other shapes."""
    order = sorted(cells, key=lambda cell: (cell.part, cell.rows, cell.size))
    counts = [max(1, round(_SAMPLE_S / _seconds(cell.call, 1))) for cell in order]
    samples: list[list[float]] = [[] for _ in order]
    for repeat in range(repeats):
        print(f"repeat {repeat + 1}/{repeats}", file=sys.stderr, flush=True)
        for cell, count, own in zip(order, counts, samples, strict=True):
            own.append(1e3 * _seconds(cell.call, count))
    return [
        Cost(
            *(str(cell.shape), cell.shape.parameters, cell.part, cell.rows, cell.size),
            *(median(own), min(own), own),
        )
        for cell, own in zip(order, samples, strict=True)
    ]


def summary(costs: Sequence[Cost]) -> Iterator[dict[str, str]]:
    """One row per shape and number of streams; all but the first three columns are in plain steps."""
    by_key = {(cost.shape, cost.part, cost.rows, cost.size): cost.p50_ms for cost in costs}
    shapes = {cost.shape: cost.parameters for cost in costs}
    for shape, rows in product(shapes, sorted({cost.rows for cost in costs})):

        def step(nodes: int, shape: str = shape, rows: int = rows) -> float:
            return by_key[shape, "step", rows, nodes] + by_key[shape, "draw", rows, nodes]

        plain = step(1)
        yield {
            "shape": shape,
            "parameters": f"{shapes[shape] / 1e6:.1f} M",
            "streams": str(rows),
            "step": f"{plain:.3f} ms",
            "frames/s": f"{1e3 * rows / plain:.0f}",
            **{f"{nodes} nodes": f"{step(nodes) / plain:.2f}" for nodes in NODES[1:]},
            f"{HEADS} heads": f"{by_key[shape, 'heads', rows, HEADS] / plain:.2f}",
            **{
                f"draft of {layers}": f"{by_key[shape, 'draft', rows, layers] / plain:.2f}"
                for layers in DRAFT_LAYERS
            },
        }


def _cells(shape: Shape, cache: int, precision: torch.dtype) -> Iterator[_Cell]:
    decoder = _decoder(shape, cache, max(NODES), precision)
    drafts = {layers: _decoder(replace(shape, layers=layers), cache, 1, precision) for layers in DRAFT_LAYERS}
    together = replace(shape, layers=0, vocabulary=HEADS * (shape.width + shape.vocabulary))
    heads = _decoder(together, cache, 1, precision)
    for rows in ROWS:
        for nodes in NODES:
            yield _Cell(shape, "step", rows, nodes, _step(decoder, rows, nodes))
            yield _Cell(shape, "draw", rows, nodes, _drawing(shape, rows, nodes))
        for layers, draft in drafts.items():
            yield _Cell(shape, "draft", rows, layers, _step(draft, rows, 1))
        yield _Cell(shape, "heads", rows, HEADS, _guessing(shape, heads, rows))


def _decoder(shape: Shape, cache: int, nodes: int, precision: torch.dtype) -> NativeDecoder:
    """Random weights that bfloat16 holds, and KV of `cache` positions in every slot."""
    state = {name: value.bfloat16().float() for name, value in Llama(shape.config).state_dict().items()}
    decoder = NativeDecoder(
        shape.config,
        state,
        num_slots=max(ROWS),
        max_positions=cache,
        max_nodes=nodes,
        precision=precision,
    )
    slots = list(range(max(ROWS)))
    decoder.prefill(slots, torch.randn(len(slots), cache, shape.width), [cache] * len(slots))
    return decoder


def _step(decoder: NativeDecoder, rows: int, nodes: int) -> Call:
    shape = TreeShape((ROOT_PARENT, *((node - 1) // _FANOUT for node in range(1, nodes))))
    tree = TokenTree(torch.randint(decoder.vocab_size, (rows, nodes, 1)), shape)
    running = Rows.of(range(rows))
    return lambda: decoder.score(tree, running)


def _drawing(shape: Shape, rows: int, nodes: int) -> Call:
    logits = _LOGIT_SPREAD * torch.randn(rows, nodes, shape.vocabulary)
    ones = torch.ones(rows, dtype=torch.float64)
    settings = SamplingSettings.of(0.7 * ones, torch.zeros(rows, dtype=torch.int64), 0.95 * ones)
    keys = stream_keys(torch.arange(rows), torch.zeros(rows, dtype=torch.int64))
    positions = torch.arange(nodes).expand(rows, nodes)
    return lambda: draw(logits, settings, keys, positions)


def _guessing(shape: Shape, heads: NativeDecoder, rows: int) -> Call:
    tree, running = TokenTree(torch.zeros((rows, 1, 1), dtype=torch.int64)), Rows.of(range(rows))

    def guess() -> object:
        logits = heads.score(tree, running).logits[:, 0, HEADS * shape.width :]
        return logits.reshape(rows, HEADS, shape.vocabulary).topk(HEAD_CANDIDATES)

    return guess


def _seconds(call: Call, count: int) -> float:
    """Of one call, after one that warms the caches."""
    call()
    began = time.thread_time()
    for _ in range(count):
        call()
    return (time.thread_time() - began) / count


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m perf.costing", description=__doc__)
    add = parser.add_argument
    shipped = Shape.of(DecoderConfig.from_file(REPOSITORY / "talker" / "1" / "config.json"))
    add("--shapes", type=Shape.parse, nargs="+", default=[shipped], metavar="LxWxI",
        help=f"(the shipped talker's, {shipped})")  # fmt: skip
    add("--cache", type=int, default=150, help="positions behind each stream (%(default)s)")
    add_precision(parser, Precision.BFLOAT16)
    add("--repeats", type=int, default=15, help="(%(default)s)")
    add("--out", type=Path, default=Path("perf/results/costing.json"), help="(%(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
