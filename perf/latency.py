"""`python -m perf.latency`: first sound, gaps and throughput, by number of streams and by load."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from talkahead_client import Client
from talkahead_client.figures import AUDIBLE
from talkahead_client.protocol import PARAMETERS, ParameterValue

from instruments import report
from instruments.environment import Environment
from instruments.report import Spread
from instruments.server import Server, add_server_options, server_at
from perf import stages
from perf.load import Load, Mode, Utterance
from perf.stages import Stage


@dataclass(frozen=True)
class Cell:
    """One mode with one number of streams; the samples that the figures come from stay with them."""

    mode: Mode
    streams: int
    wall_s: float
    """From the first request to the end of the last utterance (playing: until it has been played)."""
    spoken: int
    failed: int
    first_chunk_ms: Spread
    first_audible_ms: Spread
    gap_ms: Spread
    """Between the arrivals of neighbouring chunks."""
    ran_dry: int
    """Utterances in which a chunk arrived after everything before it had been played out."""
    real_time_factor: Spread
    audio_s_per_s: float
    stages: list[Stage]
    utterances: list[Utterance]

    @classmethod
    def of(cls, load: Load, wall_s: float, utterances: list[Utterance], passed: list[Stage]) -> Self:
        heard = [utterance.figures for utterance in utterances if utterance.figures is not None]
        audible = [figures.first_audible_ms for figures in heard if figures.first_audible_ms is not None]
        return cls(
            mode=load.mode,
            streams=load.streams,
            wall_s=wall_s,
            spoken=len(heard),
            failed=len(utterances) - len(heard),
            first_chunk_ms=Spread.of([figures.first_chunk_ms for figures in heard]),
            first_audible_ms=Spread.of(audible),
            gap_ms=Spread.of([gap for utterance in utterances for gap in utterance.gaps_ms]),
            ran_dry=sum(figures.dry_chunks > 0 for figures in heard),
            real_time_factor=Spread.of([figures.real_time_factor for figures in heard]),
            audio_s_per_s=sum(figures.audio_s for figures in heard) / wall_s,
            stages=passed,
            utterances=utterances,
        )

    def row(self) -> dict[str, str]:
        return {
            "mode": self.mode,
            "streams": str(self.streams),
            "spoken": str(self.spoken),
            "failed": str(self.failed),
            "first chunk p50": f"{self.first_chunk_ms.p50:.1f} ms",
            "p95": f"{self.first_chunk_ms.p95:.1f} ms",
            "audible p50": f"{self.first_audible_ms.p50:.1f} ms",
            "audible p95": f"{self.first_audible_ms.p95:.1f} ms",
            "gap p50": f"{self.gap_ms.p50:.1f} ms",
            "gap p95": f"{self.gap_ms.p95:.1f} ms",
            "ran dry": str(self.ran_dry),
            "rtf p50": f"{self.real_time_factor.p50:.3f}",
            "rtf p95": f"{self.real_time_factor.p95:.3f}",
            "audio s/s": f"{self.audio_s_per_s:.2f}",
        }


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    environment = Environment.record()
    loads = [
        Load(mode, streams, options.seconds, options.voice, dict(options.set))
        for mode in options.modes
        for streams in options.streams
    ]
    cells = []
    with server_at(options.server, options.metrics, options.serve_option) as server:
        for load in loads:
            print(f"{load.mode}, {load.streams} streams, {load.seconds:g} s", file=sys.stderr, flush=True)
            with Client(server.grpc) as client:
                cells.append(measure(client, server, load))
    print(report.table([cell.row() for cell in cells]))
    for cell in cells:
        if cell.stages:
            print(f"\nby stage, {cell.mode}, {cell.streams} streams")
            print(report.table([stage_row(stage, cell) for stage in cell.stages]))
    settings = {
        "seconds": options.seconds,
        "voice": options.voice,
        "parameters": dict(options.set),
        "audible": AUDIBLE,
    }
    report.save(options.out, "latency", environment, settings, cells)
    return 1 if any(cell.failed for cell in cells) else 0


def measure(client: Client, server: Server, load: Load) -> Cell:
    """Runs a load after a short one of the same kind that nobody counts."""
    replace(load, mode=Mode.CLOSED, seconds=0.0).run(client)
    earlier = _stages(server)
    began_s = time.perf_counter()
    utterances = load.run(client)
    wall_s = time.perf_counter() - began_s
    return Cell.of(load, wall_s, utterances, stages.between(earlier, _stages(server)))


def stage_row(stage: Stage, cell: Cell) -> dict[str, str]:
    return {
        "stage": stage.name,
        "passages": str(stage.count),
        "mean": f"{stage.mean_ms:.2f} ms",
        "p50": f"{stage.p50_ms:.2f} ms",
        "p95": f"{stage.p95_ms:.2f} ms",
        "per utterance": f"{1e3 * stage.total_s / max(1, cell.spoken):.1f} ms",
        "of the time": f"{stage.total_s / cell.wall_s:.1%}",
    }


def _stages(server: Server) -> Mapping[str, stages.Histogram]:
    return stages.read_page(server.metrics_url) if server.metrics_url is not None else {}


def _parameter(text: str) -> tuple[str, ParameterValue]:
    name, _, value = text.partition("=")
    kind = PARAMETERS[name]
    return name, value == "true" if kind is bool else kind(value)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m perf.latency", description=__doc__)
    add_server_options(parser)
    add = parser.add_argument
    add("--streams", type=int, nargs="+", default=[1, 4, 16], metavar="N")
    add("--modes", type=Mode, nargs="+", default=list(Mode), metavar="MODE",
        help="next request: when the last has arrived (closed) or been played (playing)")  # fmt: skip
    add("--seconds", type=float, default=30.0, help="of each cell (%(default)g)")
    add("--voice")
    add("--set", type=_parameter, action="append", default=[], metavar="NAME=VALUE",
        help="a request parameter; repeatable")  # fmt: skip
    add("--out", type=Path, default=Path("perf/results/latency.json"), help="(%(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
