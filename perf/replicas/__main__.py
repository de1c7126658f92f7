"""`python -m perf.replicas`: what listeners notice of what happens to one of two replicas behind a proxy."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from instruments import report
from instruments.environment import REPOSITORY, Environment
from instruments.proxy import Kind
from perf.arguments import at_least
from perf.replicas.lost import Loss, kill, unplug
from perf.replicas.rolled import Rolled, roll
from perf.replicas.scene import Cast, Scene
from perf.replicas.sick import MODELS, Blow, Sickness, strike
from perf.replicas.spread import Loaded, spread

_RESTARTS = 20
"""Of each server by its launcher: more than there are blows."""
_SPREAD = "spread"
_DRAIN_DELAY_S = 3.0
"""As the image has it."""
Result = Loss | Rolled | Sickness | Loaded


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit status: 0 where all is as promised."""
    options = _parser().parse_args(arguments)
    environment = Environment.record(options.repository)
    serve = (
        f"--check-interval={options.check_interval:g}",
        f"--drain-delay={_DRAIN_DELAY_S:g}",
        f"--restarts={_RESTARTS}",
    )
    cast = Cast(
        repository=options.repository,
        serve=serve,
        are_apart=options.namespaces,
        proxy=options.proxy,
        together=options.together,
        seconds=options.seconds,
        retries=options.retries,
    )
    results = []
    with cast.scene() as scene:
        for result in options.measure(scene, options):
            print(report.table([result.row()]), file=sys.stderr, flush=True)
            results.append(result)
    print(report.table([result.row() for result in results]))
    settings = {name: value for name, value in asdict(cast).items() if name != "repository"}
    if options.what == _SPREAD:
        settings |= {"load_s": options.load_seconds, "slices": options.slices}
    out = options.out or Path("perf/results") / f"replicas-{options.what}-{cast.proxy}.json"
    report.save(out, "replicas", environment, settings, results)
    return 0 if all(result.is_as_promised for result in results) else 1


def _kill(scene: Scene, options: argparse.Namespace) -> Iterator[Result]:
    yield kill(scene, options.streams)


def _unplug(scene: Scene, options: argparse.Namespace) -> Iterator[Result]:
    yield unplug(scene, options.streams)


def _roll(scene: Scene, options: argparse.Namespace) -> Iterator[Result]:
    yield roll(scene)


def _sick(scene: Scene, options: argparse.Namespace) -> Iterator[Result]:
    for blow in options.blow or Blow:
        for model in options.model or MODELS:
            yield strike(scene, model, blow)


def _spread(scene: Scene, options: argparse.Namespace) -> Iterator[Result]:
    yield from spread(scene, options.load_seconds, options.slices)


Measure = Callable[[Scene, argparse.Namespace], Iterator[Result]]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m perf.replicas", description=__doc__)
    kinds = parser.add_subparsers(dest="what", required=True, metavar="WHAT")
    killed = _add(
        kinds, "kill", "one server is killed in the middle of many streams, and is back later", _kill
    )
    wire = _add(kinds, "unplug", "one machine's wire is cut; implies --namespaces", _unplug)
    wire.set_defaults(namespaces=True)
    for one in (killed, wire):
        one.add_argument("--streams", type=at_least(40), default=200, help="in all (%(default)s)")
    _add(kinds, "roll", "both are ended and started again, one after the other, under load", _roll)
    sick = _add(kinds, "sick", "a model's process dies or hangs, model by model", _sick)
    sick.add_argument("--model", action="append", choices=MODELS, help="alone; repeatable")
    sick.add_argument("--blow", action="append", type=Blow, choices=list(Blow), help="alone; repeatable")
    alone = _add(kinds, _SPREAD, "two under load, then one, on the same cores", _spread)
    alone.add_argument("--load-seconds", type=float, default=30.0, help="of each load (%(default)g)")
    alone.add_argument("--slices", type=at_least(1), default=2, help="that these are cut into (%(default)s)")
    return parser


def _add(
    kinds: argparse._SubParsersAction[argparse.ArgumentParser], name: str, about: str, measure: Measure
) -> argparse.ArgumentParser:
    parser = kinds.add_parser(name, help=about, description=about)
    parser.set_defaults(measure=measure)
    add = parser.add_argument
    add("--together", type=at_least(1), default=16, help="streams at once (%(default)s)")
    add("--seconds", type=float, default=6.0, help="of speech of each, at most (%(default)g)")
    add("--retries", type=int, default=5, help="of a stream that has not spoken yet (%(default)s)")
    add("--check-interval", type=float, default=60.0, help="see `talkahead serve` (%(default)g)")
    add(
        "--namespaces", action="store_true", help="each replica in a network namespace of its own; needs root"
    )
    add("--proxy", type=Kind, choices=list(Kind), default=Kind.HAPROXY, help="(%(default)s)")
    add("--repository", type=Path, default=REPOSITORY, help="(%(default)s)")
    add("--out", type=Path, help="default: perf/results/replicas-WHAT-PROXY.json")
    return parser


if __name__ == "__main__":
    sys.exit(main())
