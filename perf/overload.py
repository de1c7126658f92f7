"""`python -m perf.overload`: more requests than a server can speak; how it is before, meanwhile and after.

Open loop: `--rate` requests a second, which the server holds, then `--times` as many for `--seconds`, then
`--rate` again. Who is let in should not run dry, who is not should know at once, and latency should be what
it was within two seconds of the load's end. All that `--rounds` times: memory that the first crowd has
touched stays, and the next ones should not take more.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from pathlib import Path

from instruments import report
from instruments.environment import Environment
from instruments.server import add_server_options, served_repository, server_at
from perf import memory, open_loop
from perf.arguments import add_length, add_open_load, add_set, at_least, more_than_zero
from perf.arrivals import Arrival
from perf.level import Level, Limit
from perf.open_loop import Answers, OpenLoad

RECOVERY_S = 2.0
"""After the load's end, until everything should be as it was."""
_CALM_S = 15.0


@dataclass(frozen=True)
class Phase:
    """A part of the load; `began_s` since the whole began."""

    name: str
    load: OpenLoad
    began_s: float

    def arrivals(self, part: int) -> list[Arrival]:
        return [replace(one, at_s=one.at_s + self.began_s) for one in self.load.arrivals(part)]

    def of(self, whole: Answers) -> Answers:
        """Its own share of all answers."""
        ends_s = self.began_s + self.load.seconds
        mine = [
            (one, late)
            for one, late in zip(whole.utterances, whole.late_ms, strict=True)
            if self.began_s <= one.started_s - late / 1e3 < ends_s
        ]
        utterances, late_ms = [one for one, _ in mine], [late for _, late in mine]
        return Answers(self.load.seconds, utterances, late_ms, whole.generator_share)


def phases(load: OpenLoad, times: float) -> list[Phase]:
    """Of one round.

    Args:
        load: what the server holds; its seconds are those of the overload.
    """
    parts = [
        ("before", replace(load, seconds=_CALM_S)),
        (f"{times:g} times", replace(load, rate=times * load.rate)),
        (f"{RECOVERY_S:g} s after", replace(load, seconds=RECOVERY_S)),
        ("then", replace(load, seconds=_CALM_S)),
    ]
    began = accumulate((one.seconds for _, one in parts), initial=0.0)
    return [Phase(name, one, began_s) for (name, one), began_s in zip(parts, began, strict=False)]


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    repository = served_repository(options)
    environment = Environment.record(repository)
    limit = Limit(options.first_chunk_ms, options.dry_share)
    load = OpenLoad(options.rate, options.seconds, options.spacing, options.length, options.voice)
    asked = phases(load, options.times)
    rounds: list[Answers] = []
    with server_at(options.server, options.metrics, options.serve_option, repository) as server:
        held = [memory.of(server)]
        for number in range(options.rounds):
            crowd = _arrivals(asked, number)
            texts, parameters = load.length.texts, dict(options.set)
            rounds.append(asyncio.run(open_loop.answers(server.grpc, texts, load.voice, parameters, crowd)))
            held.append(memory.of(server))
    levels = [
        Level.of(one.name, one.load, limit, [one.of(answers) for answers in rounds], held[-1])
        for one in asked
    ]
    print(report.table([one.row(levels[0]) for one in levels]))
    for before, after in pairwise(held):
        print(f"memory: {_grown(before, after)}")
    report.save(options.out, "overload", environment, {"memory": held}, levels)
    return 1 if any(one.failed for one in levels) else 0


def _arrivals(asked: Sequence[Phase], number: int) -> list[Arrival]:
    """Of one round, each at times of its own."""
    first = number * len(asked)
    return [one for part, phase in enumerate(asked, first) for one in phase.arrivals(part)]


def _grown(before: dict[str, int], after: dict[str, int]) -> str:
    grown = (f"{name} {(after[name] - size) / 2**20:+.1f} MiB" for name, size in before.items())
    return ", ".join(grown) or "unknown, for the server was there before"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m perf.overload", description=__doc__)
    add_server_options(parser)
    add = parser.add_argument
    add(
        "--rate",
        type=more_than_zero,
        default=8.0,
        help="requests a second that the server holds (%(default)g)",
    )
    add("--times", type=more_than_zero, default=3.0, help="as many are too many (%(default)g)")
    add("--seconds", type=more_than_zero, default=60.0, help="of these (%(default)g)")
    add("--rounds", type=at_least(1), default=2, help="of all that (%(default)s)")
    add_open_load(parser)
    add_length(parser)
    add_set(parser)
    add("--out", type=Path, default=Path("perf/results/overload.json"), help="(%(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
