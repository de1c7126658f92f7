"""`python -m perf.deterministic`: what `talkahead serve --deterministic` costs.

Two servers, one of them started with that option, get the same load by turns: closed streams with the same
texts and seeds.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from instruments import report
from instruments.environment import REPOSITORY, Environment
from instruments.server import server_at
from perf import cell
from perf.arguments import add_slices
from perf.streams import Load, Mode
from perf.turns import Configuration, by_turns

_OPTION = "--deterministic"


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    environment = Environment.record(options.repository)
    cells = []
    with (
        server_at(None, None, [_OPTION], options.repository) as exact,
        server_at(None, None, [], options.repository) as usual,
    ):
        own, beside = Configuration(_OPTION, exact, {}), Configuration("the usual server", usual, {})
        for streams in options.streams:
            load = Load(Mode.CLOSED, streams, options.seconds, None, {})
            one, other = by_turns([own, beside], load, options.slices)
            cells += [one.over(other), other]
    print(cell.tables(cells))
    for one in cells:
        if one.gain is not None:
            print(f"\n{one.streams} streams: {one.gain.audio_s_per_s} the audio of {one.gain.over}")
    settings = {"seconds": options.seconds, "slices": options.slices}
    drafted = environment.drafting(options.repository, {pair for one in cells for pair in one.pairs})
    report.save(options.out, "deterministic", drafted, settings, cells)
    return 1 if any(one.failed for one in cells) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m perf.deterministic", description=__doc__)
    add = parser.add_argument
    add("--streams", type=int, nargs="+", default=[16], metavar="N")
    add_slices(parser, seconds=40.0)
    add("--repository", type=Path, default=REPOSITORY, help="(%(default)s)")
    add("--out", type=Path, default=Path("perf/results/deterministic.json"), help="(%(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
