"""`python -m perf.soak`: one load for minutes, of which every answer is known beforehand.

Each of a few texts is first spoken alone with each of its seeds. Then they come open loop at `--rate`, and
every utterance must be, sample by sample, what it was alone: whole, in order, and nobody else's. The server's
memory is looked at all the while; what it grows by is the slope of a line through the second half.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import threading
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt
from talkahead_client import AudioChunk, Client
from talkahead_client.aio import AsyncClient
from talkahead_client.protocol import ParameterValue

from instruments import report
from instruments.environment import Environment
from instruments.server import Server, add_server_options, served_repository, server_at
from perf import memory
from perf.arguments import add_length, add_open_load, add_set, at_least, more_than_zero
from perf.arrivals import arrivals
from perf.level import Level, Limit
from perf.open_loop import NUM_SEEDS, Ask, OpenLoad, answers, directly

SAME = 1e-5
"""Of full scale: between two decodings of the same frames, which differ by the shape of the batch."""
_LOOK_S = 5.0

Audio = npt.NDArray[np.float32]


@dataclass
class Known:
    """What each text sounds like with each seed, and how often it was heard otherwise."""

    alone: dict[tuple[str, int], Audio]
    num_same: int = 0
    num_different: int = 0

    @asynccontextmanager
    async def checking(self, client: AsyncClient) -> AsyncIterator[Ask]:
        """The server itself, and what it says is compared."""
        async with directly(client) as ask:

            async def checked(
                text: str, voice: str | None, parameters: Mapping[str, ParameterValue]
            ) -> AsyncIterator[AudioChunk]:
                heard = []
                async for chunk in ask(text, voice, parameters):
                    heard.append(chunk.audio)
                    yield chunk
                self._compare(text, int(parameters["seed"]), np.concatenate(heard))

            yield checked

    def _compare(self, text: str, seed: int, heard: Audio) -> None:
        expected = self.alone[text, seed]
        is_same = len(heard) == len(expected) and float(np.abs(heard - expected).max()) <= SAME
        self.num_same += is_same
        self.num_different += not is_same


@dataclass
class MemoryWatch:
    """`with` looks at a server's memory every few seconds, from a thread of its own."""

    server: Server
    at_s: list[float] = field(default_factory=list)
    held: list[dict[str, int]] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="memory-watch")
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._thread.join()

    def _look(self) -> None:
        began_s = time.perf_counter()
        while not self._is_over.wait(_LOOK_S):
            self.at_s.append(time.perf_counter() - began_s)
            self.held.append(memory.of(self.server))

    def growth(self) -> dict[str, float]:
        """MiB a minute of each process, in the second half; empty where there is too little to tell."""
        half = len(self.at_s) // 2
        times, held = self.at_s[half:], self.held[half:]
        if len(times) < 2:
            return {}
        slopes = {name: np.polyfit(times, [one[name] / 2**20 for one in held], 1)[0] for name in held[0]}
        return {name: 60.0 * float(slope) for name, slope in slopes.items()}


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    repository = served_repository(options)
    environment = Environment.record(repository)
    load = OpenLoad(options.rate, 60.0 * options.minutes, options.spacing, options.length, options.voice)
    texts, parameters = spread(load.length.texts, options.texts), dict(options.set)
    asked = arrivals(load.rate, load.seconds, load.spacing, len(texts), NUM_SEEDS, part=0)
    with server_at(options.server, options.metrics, options.serve_option, repository) as server:
        known = Known(_alone(server.grpc, texts, load.voice, parameters))
        _say(f"{len(known.alone)} utterances are known; {len(asked)} streams in {options.minutes:g} minutes")
        with MemoryWatch(server) as watch:
            found = asyncio.run(answers(server.grpc, texts, load.voice, parameters, asked, known.checking))
        held = memory.of(server)
    level = Level.of("soak", load, Limit(options.first_chunk_ms, options.dry_share), [found], held)
    print(report.table([level.row(level)]))
    print(f"as alone: {known.num_same}, otherwise: {known.num_different}")
    growth = watch.growth()
    grown = ", ".join(f"{name} {slope:+.2f} MiB/min" for name, slope in growth.items())
    print(f"memory: {grown or 'unknown'}")
    settings = {
        "texts": texts,
        "same": known.num_same,
        "different": known.num_different,
        "growth_mib_per_min": growth,
        "memory_at_s": watch.at_s,
        "memory": watch.held,
    }
    report.save(options.out, "soak", environment, settings, [level])
    return 1 if level.failed or known.num_different else 0


def spread(texts: Sequence[str], count: int) -> list[str]:
    """So many of them, from all of their lengths alike; all where there are fewer."""
    count = min(count, len(texts))
    return [texts[place * len(texts) // count] for place in range(count)]


def _alone(
    address: str, texts: Sequence[str], voice: str | None, parameters: Mapping[str, ParameterValue]
) -> dict[tuple[str, int], Audio]:
    with Client(address) as client:
        return {
            (text, seed): np.concatenate(
                [chunk.audio for chunk in client.speak(text, voice=voice, **{"seed": seed, **parameters})]  # type: ignore[arg-type]
            )
            for text in texts
            for seed in range(NUM_SEEDS)
        }


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m perf.soak", description=__doc__)
    add_server_options(parser)
    add = parser.add_argument
    add("--rate", type=more_than_zero, default=6.0, help="requests a second (%(default)g)")
    add("--minutes", type=more_than_zero, default=10.0, help="(%(default)g)")
    add("--texts", type=at_least(1), default=16, help=f"each with {NUM_SEEDS} seeds (%(default)s)")
    add_open_load(parser)
    add_length(parser)
    add_set(parser)
    add("--out", type=Path, default=Path("perf/results/soak.json"), help="(%(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
