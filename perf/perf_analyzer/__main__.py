"""`python -m perf.perf_analyzer`: NVIDIA's own load generator, on the ensemble and on each model alone.

Several numbers of streams that ask again when they have been answered (`--streams`), and rates of requests
that wait for nobody (`--rates`). First responses are read from its profile. `tts` is asked by our own
generators too, with the same texts, so that each can be held against the other.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from instruments import report
from instruments.environment import REPOSITORY, Environment
from instruments.server import Server, add_server_options, served_repository, server_at
from perf import open_loop
from perf.arguments import at_least
from perf.arrivals import Length, Spacing
from perf.open_loop import OpenLoad
from perf.perf_analyzer import inputs
from perf.perf_analyzer.binary import FRONTEND, TTS, Analyzer, Offer
from perf.perf_analyzer.inputs import Entry
from perf.perf_analyzer.profile import Profile
from perf.streams import Load, Mode
from perf.texts import TEXTS
from perf.turns import Configuration, by_turns

_ENTRIES: dict[str, Callable[[Server, argparse.Namespace, Sequence[str]], list[Entry]]] = {
    TTS: lambda server, options, texts: inputs.of_texts(texts, options.voice),
    FRONTEND: lambda server, options, texts: inputs.of_texts(texts, options.voice),
    "encoder": lambda server, options, texts: inputs.of_encoder(server.grpc, texts),
    "vocoder": lambda server, options, texts: inputs.of_vocoder(options.repository or REPOSITORY),
}


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    repository = served_repository(options)
    environment = Environment.record(repository)
    with (
        server_at(options.server, options.metrics, options.serve_option, repository) as server,
        tempfile.TemporaryDirectory(prefix="perf-analyzer-") as folder,
    ):
        analyzer = Analyzer(Path(folder), server.grpc)
        found = [one for model in options.models for one in _measure(model, server, analyzer, options)]
    print(report.table([one.row() for one in found]))
    settings = {name: getattr(options, name) for name in ("models", "requests", "seconds", "voice")}
    pairs = {pair for one in found for pair in one.pairs}
    report.save(options.out, "perf_analyzer", environment.drafting(repository, pairs), settings, found)
    return 0


def _measure(
    model: str, server: Server, analyzer: Analyzer, options: argparse.Namespace
) -> Iterator[Profile]:
    """Each kind of load with the texts that our own generators have for it."""
    streams = [Offer(streams=one, requests=options.requests * one) for one in options.streams]
    rates = [Offer(rate=one, requests=max(1, round(one * options.seconds))) for one in options.rates]
    for offers, texts in ((streams, TEXTS), (rates, Length.MIXED.texts)):
        entries = _ENTRIES[model](server, options, texts) if offers else []
        for offer in offers:
            profile = analyzer.run(model, offer, entries)
            own = _own_first_ms(server, offer, profile.asked_per_s, options) if model == TTS else None
            yield replace(profile, own_first_ms=own)


def _own_first_ms(server: Server, offer: Offer, rate: float, options: argparse.Namespace) -> float:
    """By our own generators, of requests as many a second as perf_analyzer has really sent."""
    if offer.streams is not None:
        load = Load(Mode.CLOSED, offer.streams, options.seconds, options.voice, {})
        [cell] = by_turns([Configuration.of(server, {})], load, slices=1)
        return cell.first_chunk_ms.p50
    print(f"our own: {rate:.2f} requests/s", file=sys.stderr, flush=True)
    asked = OpenLoad(rate, options.seconds, Spacing.POISSON, Length.MIXED, options.voice)
    answers = open_loop.run(server.grpc, asked, {}, part=0)
    heard = [one.figures for one in answers.utterances if one.figures is not None]
    return report.Spread.of([one.first_chunk_ms for one in heard]).p50


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m perf.perf_analyzer",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_server_options(parser)
    add = parser.add_argument
    add("--models", choices=_ENTRIES, nargs="+", default=list(_ENTRIES), help="(all of them)")
    add("--streams", type=at_least(1), nargs="*", default=[1, 4, 16], metavar="N", help="at once (1 4 16)")
    add("--rates", type=float, nargs="*", default=[], metavar="R", help="requests a second (none)")
    add("--requests", type=at_least(1), default=20, help="of each stream (%(default)s)")
    add("--seconds", type=float, default=20.0, help="of each rate, and of our own loads (%(default)g)")
    add("--voice")
    add("--out", type=Path, default=Path("perf/results/perf_analyzer.json"), help="(%(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
