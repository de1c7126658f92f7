"""`python -m perf.latency`: first sound, gaps and throughput, by number of streams and by load.

What is measured is the server as it is, or the parameters of `--set`, and of each `--also`; beside it, by
turns in slices of a few seconds with the same texts and seeds, plain decoding (`--beside drafter=none`), so
that every table says what drafting ahead brings on this machine. `--alone` leaves that out.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path

from talkahead_client.figures import AUDIBLE
from talkahead_client.protocol import DRAFTING, ParameterValue

from instruments import report
from instruments.environment import Environment
from instruments.server import add_server_options, served_repository, server_at
from perf import cell
from perf.arguments import add_set, add_slices, way
from perf.cell import Cell
from perf.streams import Load, Mode
from perf.turns import Configuration, by_turns, name_of

Parameters = dict[str, ParameterValue]

_PLAIN: Parameters = {"drafter": "none"}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    repository = served_repository(options)
    environment = Environment.record(repository)
    own = dict(options.set)
    asked = [own, *options.also]
    beside = None if options.alone else _beside(own, options.beside or _PLAIN)
    if beside is not None and beside in asked:
        parser.error(f"beside itself nothing is gained ({name_of(beside)}): say --alone, or another --beside")
    if beside is not None and options.slices < 2:
        parser.error("--slices: what two configurations gain on each other needs 2 or more")
    cells = []
    with server_at(options.server, options.metrics, options.serve_option, repository) as server:
        for mode, streams in product(options.modes, options.streams):
            load = Load(mode, streams, options.seconds, options.voice, {})
            ways = asked if beside is None else [*asked, beside]
            found = by_turns([Configuration.of(server, one) for one in ways], load, options.slices)
            cells += found if beside is None else [*(one.over(found[-1]) for one in found[:-1]), found[-1]]
    print(cell.tables(cells))
    if beside is not None:
        print(f"\n{sentence(environment, cells)}")
    settings = {
        "seconds": options.seconds,
        "slices": options.slices,
        "voice": options.voice,
        "parameters": own,
        "also": options.also,
        "beside": beside,
        "audible": AUDIBLE,
    }
    drafted = environment.drafting(repository, {pair for one in cells for pair in one.pairs})
    report.save(options.out, "latency", drafted, settings, cells)
    return 1 if any(one.failed for one in cells) else 0


def sentence(environment: Environment, cells: Sequence[Cell]) -> str:
    """What drafting brings to the talker here, with the machine's name: for README."""
    gains = [(one, one.gain) for one in cells if one.gain is not None]
    pairs = " and ".join(dict.fromkeys(f"`{one.pair}`" for one, _ in gains))
    loads = "; ".join(
        f"{mode} streams, {', '.join(f'{one.streams}: {gain}' for one, gain in gains if one.mode is mode)}"
        for mode in dict.fromkeys(one.mode for one, _ in gains)
    )
    is_faster = any(gain.is_faster for _, gain in gains)
    return (
        f"On {environment.machine}, the talker's speed with {pairs} over that with "
        f"{gains[0][1].over}: {loads}."
        f"{'' if is_faster else ' Drafting ahead brings nothing on this machine.'}"
    )


def _beside(own: Mapping[str, ParameterValue], named: Mapping[str, ParameterValue]) -> Parameters:
    """What goes beside: its own way of drafting, everything else as measured."""
    return {**{name: value for name, value in own.items() if name not in DRAFTING}, **named}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m perf.latency", description=__doc__)
    add_server_options(parser)
    add = parser.add_argument
    add("--streams", type=int, nargs="+", default=[1, 4, 16], metavar="N")
    add("--modes", type=Mode, nargs="+", default=list(Mode), metavar="MODE",
        help="next request: when the last has arrived (closed) or been played (playing)")  # fmt: skip
    add_slices(parser, seconds=40.0)
    add("--voice")
    add_set(parser)
    add("--also", type=way, action="append", default=[], metavar="NAME=VALUE,...",
        help="request parameters of what is measured by turns with it, as --set is; repeatable")  # fmt: skip
    beside = parser.add_mutually_exclusive_group()
    beside.add_argument("--beside", type=way, metavar="NAME=VALUE,...",
        help="request parameters of what it is compared with, in place of those of --set that say how to "
        "draft (drafter=none)")  # fmt: skip
    beside.add_argument("--alone", action="store_true", help="compare with nothing")
    add("--out", type=Path, default=Path("perf/results/latency.json"), help="(%(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
