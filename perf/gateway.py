"""`python -m perf.gateway`: what each door of the gateway adds to the first audible sample.

It is compared with gRPC to the server itself, by turns in slices of a few seconds, with the same texts and
seeds, by clients that play what they hear. Then text that is still being written: a clause word by word, from
its last letter, against the same clause sent whole. Either can be measured alone: each number of streams is a
run of a few minutes.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import partial
from itertools import product
from pathlib import Path
from typing import Self

import numpy as np
from talkahead.draft_training.bootstrap import bootstrap_interval
from talkahead_client import Client
from talkahead_client.figures import AUDIBLE

from instruments import report
from instruments.environment import Environment
from instruments.gateway import Gateway, gateway_before
from instruments.server import Server, add_server_options, served_repository, server_at
from perf.arguments import add_slices, at_least
from perf.cell import Cell
from perf.doors import (
    ElevenLabsDoor,
    ElevenLabsWriting,
    Mp3,
    OneClause,
    OpenAiDoor,
    OpenAiEvents,
    RivaDoor,
    mp3_delay_ms,
    wav,
)
from perf.part import Part
from perf.streams import Load, Mode, Speaker
from perf.turns import Configuration, by_turns

_DIRECT = "gRPC"
_MP3 = "OpenAI mp3"
_WHOLE, _WRITTEN = "a clause, whole", "a clause, word by word"
_MANY_STREAMS = 16


class What(StrEnum):
    """What is measured."""

    DOORS = "doors"
    """Each, under each load."""
    WRITING = "writing"
    """Text that is still being written."""


@dataclass(frozen=True)
class Difference:
    """Of the first audible sample, in milliseconds, with a 95 % interval by drawing slices again."""

    value: float
    low: float
    high: float

    @classmethod
    def of_twins(cls, own: Sequence[Part], other: Sequence[Part]) -> Self:
        """The median over utterances of the same text and seed."""
        differences = [_twins_ms(*parts) for parts in zip(own, other, strict=True)]
        return cls._of(lambda pick: _quantile([one for at in pick for one in differences[at]], 0.5), len(own))

    @classmethod
    def of_tails(cls, own: Sequence[Part], other: Sequence[Part]) -> Self:
        """Of both 95th percentiles."""
        mine, others = ([_audible_ms(part) for part in parts] for parts in (own, other))

        def difference(pick: Sequence[int]) -> float:
            tails = (_quantile([one for at in pick for one in parts[at]], 0.95) for parts in (mine, others))
            return next(tails) - next(tails)

        return cls._of(difference, len(own))

    @classmethod
    def _of(cls, figure: Callable[[Sequence[int]], float], slices: int) -> Self:
        return cls(figure(range(slices)), *bootstrap_interval(figure, slices))

    def __str__(self) -> str:
        return f"{self.value:+.1f} ms ({self.low:+.1f} to {self.high:+.1f})"


@dataclass(frozen=True)
class Addition:
    """What a door adds over another way, where so many streams are spoken.

    Args:
        codec_ms: of the medians, what the format itself takes, whoever serves it.
        floor_ms: that the median may come to without that.
        many_floor_ms: that the 95th percentile may come to without it, where there is such a bound.
    """

    door: str
    over: str
    mode: Mode
    streams: int
    p50: Difference
    p95: Difference
    codec_ms: float
    floor_ms: float
    many_floor_ms: float | None

    @property
    def is_kept(self) -> bool:
        is_many_kept = self.many_floor_ms is None or self.p95.value - self.codec_ms <= self.many_floor_ms
        return self.p50.value - self.codec_ms <= self.floor_ms and is_many_kept

    def row(self) -> dict[str, str]:
        bounds = f"{self.floor_ms:g} ms"
        if self.many_floor_ms is not None:
            bounds += f", p95 {self.many_floor_ms:g} ms"
        return {
            "door": self.door,
            "over": self.over,
            "mode": self.mode,
            "streams": str(self.streams),
            "adds at p50": str(self.p50),
            "at p95": str(self.p95),
            "of it the codec": f"{self.codec_ms:.1f} ms",
            "may add": bounds,
            "kept": "yes" if self.is_kept else "no",
        }


@dataclass(frozen=True)
class Measured:
    """All of one run.

    Args:
        mp3_delay_ms: of the codec itself, which is told apart.
    """

    cells: list[Cell]
    additions: list[Addition]
    mp3_delay_ms: float


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    repository = served_repository(options)
    environment = Environment.record(repository)
    with (
        server_at(options.server, options.metrics, options.serve_option, repository) as server,
        gateway_before(server.grpc) as gateway,
    ):
        measured = measure(server, gateway, options)
    print(report.table([one.row() for one in measured.cells]))
    print(f"\n{report.table([one.row() for one in measured.additions])}")
    settings = {
        **{
            name: getattr(options, name)
            for name in ("what", "modes", "streams", "seconds", "slices", "voice")
        },
        "audible": AUDIBLE,
        "mp3_delay_ms": measured.mp3_delay_ms,
        "additions": [asdict(one) for one in measured.additions],
    }
    drafted = environment.drafting(repository, {pair for one in measured.cells for pair in one.pairs})
    report.save(options.out, "gateway", drafted, settings, measured.cells)
    failed = any(one.failed for one in measured.cells)
    return 1 if failed or not all(one.is_kept for one in measured.additions) else 0


def measure(server: Server, gateway: Gateway, options: argparse.Namespace) -> Measured:
    """Every door under every load, and then what is written, under the first and lightest."""
    delay_ms = mp3_delay_ms()
    voice = options.voice or _first_voice(server)
    cells, additions = [], []
    for mode, streams in product(options.modes, options.streams) if What.DOORS in options.what else ():
        load = Load(mode, streams, options.seconds, voice, {})
        spoken = by_turns(_doors(server, gateway), load, options.slices)
        additions += [_of_door(one, spoken[0], delay_ms) for one in spoken[1:]]
        cells += spoken
    if What.WRITING in options.what:
        load = Load(options.modes[0], min(options.streams), options.seconds, voice, {})
        whole, written = by_turns(_clauses(server, gateway), load, options.slices)
        additions.append(_addition(written, whole, floor_ms=30.0))
        cells += [whole, written]
    return Measured(cells, additions, delay_ms)


def _of_door(one: Cell, direct: Cell, mp3_ms: float) -> Addition:
    is_mp3 = one.configuration == _MP3
    many_floor_ms = 15.0 if one.streams == _MANY_STREAMS else None
    return _addition(one, direct, 10.0 if is_mp3 else 6.0, many_floor_ms, mp3_ms if is_mp3 else 0.0)


def _addition(
    own: Cell, other: Cell, floor_ms: float, many_floor_ms: float | None = None, codec_ms: float = 0.0
) -> Addition:
    return Addition(
        door=own.configuration,
        over=other.configuration,
        mode=own.mode,
        streams=own.streams,
        p50=Difference.of_twins(own.parts, other.parts),
        p95=Difference.of_tails(own.parts, other.parts),
        codec_ms=codec_ms,
        floor_ms=floor_ms,
        many_floor_ms=many_floor_ms,
    )


def _doors(server: Server, gateway: Gateway) -> list[Configuration]:
    """The server itself first."""
    return [
        Configuration(_DIRECT, server, {}),
        _through(server, "OpenAI pcm", OpenAiDoor(gateway.http, "pcm")),
        _through(server, "OpenAI wav", OpenAiDoor(gateway.http, "wav", wav)),
        _through(server, _MP3, OpenAiDoor(gateway.http, "mp3", Mp3)),
        _through(server, "OpenAI sse", OpenAiEvents(gateway.http)),
        _through(server, "ElevenLabs", ElevenLabsDoor(gateway.http)),
        Configuration("Riva", server, {}, partial(RivaDoor, gateway.riva)),
    ]


def _clauses(server: Server, gateway: Gateway) -> list[Configuration]:
    return [
        _through(server, _WHOLE, OneClause(ElevenLabsDoor(gateway.http))),
        _through(server, _WRITTEN, OneClause(ElevenLabsWriting(gateway.http))),
    ]


def _through(server: Server, name: str, door: Speaker) -> Configuration:
    return Configuration(name, server, {}, lambda: nullcontext(door))


def _first_voice(server: Server) -> str:
    with Client(server.grpc) as client:
        return client.voices()[0]


def _twins_ms(own: Part, other: Part) -> list[float]:
    """By how much later each utterance was heard than the other's of its stream and place."""
    mine, others = _by_place(own), _by_place(other)
    return [mine[place] - others[place] for place in mine.keys() & others.keys()]


def _by_place(part: Part) -> dict[tuple[int, int], float]:
    """When each utterance was heard, by its stream, and its place in that."""
    spoken: Counter[int] = Counter()
    heard = {}
    for one in part.utterances:
        if one.figures is not None and one.figures.first_audible_ms is not None:
            heard[one.stream, spoken[one.stream]] = one.figures.first_audible_ms
        spoken[one.stream] += 1
    return heard


def _audible_ms(part: Part) -> list[float]:
    return list(_by_place(part).values())


def _quantile(values: Sequence[float], share: float) -> float:
    return float(np.quantile(values, share)) if values else math.nan


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m perf.gateway", description=__doc__)
    add_server_options(parser)
    add = parser.add_argument
    add("what", type=What, nargs="*", default=list(What), metavar="WHAT",
        help="doors: each under each load; writing: text that is being written (usual: both)")  # fmt: skip
    add("--modes", type=Mode, nargs="+", default=[Mode.PLAYING], metavar="MODE",
        help="next request: when the last has arrived (closed) or been played (playing; usual)")  # fmt: skip
    add("--streams", type=at_least(1), nargs="+", default=[1, 4, _MANY_STREAMS], metavar="N")
    add_slices(parser, seconds=40.0)
    add("--voice", help="(the server's first)")
    add("--out", type=Path, default=Path("perf/results/gateway.json"), help="(%(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
