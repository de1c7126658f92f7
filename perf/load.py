"""`python -m perf.load`: first sound, continuity and goodput by requests a second, which wait for nobody.

Open loop: a request is sent when its time has come, whatever became of those before, so that waiting shows.
(`perf.latency` measures so many streams, each of which asks again when it has been served or heard.) What is
measured is the server as it is, or the parameters of `--set`; with `--beside`, other ways by turns with it,
and with `--change`, another server whose models are configured otherwise.
`--find-limit` goes on from there, by turns too, to the most requests a second that keep `--first-chunk-ms`
and `--dry-share`: for each configuration between the highest rate that did and the lowest above it that did
not, until these lie 6 % apart.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from instruments import report
from instruments.changed_repository import changed_repository
from instruments.environment import Environment
from instruments.server import add_server_options, served_repository, server_at
from perf import batches, level, memory, open_loop
from perf.arguments import add_open_load, add_set, add_slices, setting, way
from perf.arrivals import Length, Spacing
from perf.batches import Counts
from perf.heard import BUFFER_MS
from perf.level import Level, Limit
from perf.limit_search import LimitSearch
from perf.open_loop import OpenLoad
from perf.turns import Configuration, name_of

_WARM_UP = OpenLoad(rate=4.0, seconds=3.0, spacing=Spacing.EVEN, length=Length.MIXED)
_WARM_UP_PART = 0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    if min(options.rates) <= 0:
        parser.error(f"--rates: {min(options.rates):g} requests a second; more than 0 are allowed")
    repository = served_repository(options)
    environment = Environment.record(repository)
    if options.change and repository is None:
        parser.error("--change: of a --server nothing can be changed")
    with ExitStack() as stack:
        try:
            asked = _asked(stack, options, repository)
        except ValueError as error:
            parser.error(f"--change: {error}")
        levels = list(_levels(asked, options))
    print(report.table(level.rows(levels)))
    limits = [_limit(one, length, levels) for one, length in product(asked, options.lengths)]
    for found in limits if options.find_limit else ():
        print(f"{found['configuration']}, {found['length']} texts: held {found['rate']:.3g} requests/s")
    settings = {
        "limits": limits,
        "slices": options.slices,
        "buffer_ms": BUFFER_MS,
        "configurations": [one.name for one in asked],
    }
    report.save(options.out, "load", environment, settings, levels)
    return 1 if any(one.failed for one in levels) else 0


def _asked(stack: ExitStack, options: argparse.Namespace, repository: Path | None) -> list[Configuration]:
    """The server's own way, and what it is compared with."""
    own, change = dict(options.set), dict(options.change)
    start = partial(server_at, options.server, options.metrics, options.serve_option)
    if repository is None or not change:
        server = stack.enter_context(start(repository))
        return [Configuration.of(server, one) for one in (own, *options.beside)]
    folder = Path(stack.enter_context(TemporaryDirectory(prefix="talkahead-load-")))
    changed = changed_repository(repository, folder / "models", change)
    server, other = (stack.enter_context(start(one)) for one in (repository, changed))
    others = [
        Configuration(name_of({**change, **parameters}), other, parameters)
        for parameters in options.beside or [own]
    ]
    return [Configuration.of(server, own), *others]


def _levels(asked: Sequence[Configuration], options: argparse.Namespace) -> Iterator[Level]:
    """Every rate of every configuration; where it is wanted, then those beyond up to the limits."""
    limit = Limit(options.first_chunk_ms, options.dry_share)
    load = OpenLoad(0.0, options.seconds / options.slices, options.spacing, Length.MIXED, options.voice)
    for one in asked:
        open_loop.run(one.server.grpc, _WARM_UP, one.parameters, _WARM_UP_PART)
    for length in options.lengths:
        searches = {one.name: LimitSearch() for one in asked}
        for rate in sorted(options.rates):
            rates = dict.fromkeys(searches, rate)
            yield from _searched(searches, asked, rates, replace(load, length=length), limit, options.slices)
        while options.find_limit and (rates := _next_rates(searches)):
            yield from _searched(searches, asked, rates, replace(load, length=length), limit, options.slices)


def _next_rates(searches: Mapping[str, LimitSearch]) -> dict[str, float]:
    """By configuration, of those whose limits are not found yet."""
    return {name: rate for name, search in searches.items() if (rate := search.rate) is not None}


def _searched(
    searches: Mapping[str, LimitSearch],
    asked: Sequence[Configuration],
    rates: Mapping[str, float],
    load: OpenLoad,
    limit: Limit,
    slices: int,
) -> Iterator[Level]:
    """What came of one rate of each configuration, which the searches are told too."""
    loads = {name: replace(load, rate=rate) for name, rate in rates.items()}
    for found in _by_turns([one for one in asked if one.name in rates], loads, limit, slices):
        searches[found.configuration].add(found.load.rate, found.is_held)
        yield found


def _by_turns(
    asked: Sequence[Configuration], loads: Mapping[str, OpenLoad], limit: Limit, slices: int
) -> list[Level]:
    """Each one's load in slices, by all configurations in turn; the next slice the other way round."""
    parts: dict[str, list[open_loop.Answers]] = {one.name: [] for one in asked}
    counts: dict[str, list[tuple[Counts, Counts]]] = {one.name: [] for one in asked}
    for part in range(slices):
        for one in asked if part % 2 == 0 else reversed(asked):
            load = loads[one.name]
            note = f"{load.rate:.3g} requests/s, slice {part + 1} of {slices}: {one.name}"
            print(note, file=sys.stderr, flush=True)
            before = batches.read(one.server.metrics_page())
            parts[one.name].append(
                open_loop.run(one.server.grpc, load, one.parameters, _WARM_UP_PART + 1 + part)
            )
            counts[one.name].append((before, batches.read(one.server.metrics_page())))
    return [
        replace(
            Level.of(one.name, loads[one.name], limit, parts[one.name], memory.of(one.server)),
            requests_a_pass=batches.requests_a_pass(counts[one.name]),
        )
        for one in asked
    ]


def _limit(one: Configuration, length: Length, levels: Sequence[Level]) -> dict[str, Any]:
    """The highest rate that was held, of those that were tried; 0 where none was."""
    own = [level for level in levels if (level.configuration, level.load.length) == (one.name, length)]
    rate = max((level.load.rate for level in own if level.is_held), default=0.0)
    return {"configuration": one.name, "length": length, "rate": rate}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m perf.load", description=__doc__)
    add_server_options(parser)
    add = parser.add_argument
    add("--rates", type=float, nargs="+", default=[1.0, 4.0, 8.0, 16.0], metavar="R",
        help="requests a second (1 4 8 16)")  # fmt: skip
    add_open_load(parser)
    add("--lengths", type=Length, choices=list(Length), nargs="+", default=[Length.MIXED],
        help="of texts, one after the other (mixed)")  # fmt: skip
    add("--find-limit", action="store_true", help="search the most requests a second that keep both")
    add_slices(parser, seconds=40.0)
    add_set(parser)
    add("--beside", type=way, action="append", default=[], metavar="NAME=VALUE,...",
        help="request parameters of what it is compared with by turns; repeatable")  # fmt: skip
    add("--change", type=setting, action="append", default=[], metavar="MODEL.NAME=VALUE",
        help="a parameter of a model's config.pbtxt, or max_batch_size, in another server, which gets the "
        "requests of --beside, or the same ones; repeatable")  # fmt: skip
    add("--out", type=Path, default=Path("perf/results/load.json"), help="(%(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
