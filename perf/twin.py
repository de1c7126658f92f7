"""`python -m perf.twin`: first sound of the server, and of its twin that does not stream.

The twin has the same models and the same server, but takes requests in static batches, as synthesis for files
does: whoever waits is in the next batch, which begins when all of the last one has been spoken, and the
answers, whole utterances, come at its end, for each model makes all of a batch before the next one begins
(the baseline of Du et al. 2021, section 3.1). First its stable rate is measured, which is that of full
batches; then both get shares of that rate, by turns.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from talkahead_client import AudioChunk, SpeechError
from talkahead_client.aio import AsyncClient
from talkahead_client.protocol import ParameterValue

from instruments import report
from instruments.environment import Environment
from instruments.server import add_server_options, served_repository, server_at
from perf import level, memory
from perf.arguments import add_length, add_open_load, add_set, add_slices, at_least
from perf.arrivals import Arrival
from perf.level import Level, Limit
from perf.open_loop import NUM_SEEDS, Answers, Ask, OpenLoad, Way, answers, directly

_SATURATED_BATCHES = 4
"""From which the stable rate is taken."""


@dataclass(frozen=True)
class _Asked:
    text: str
    voice: str | None
    parameters: Mapping[str, ParameterValue]
    spoken: asyncio.Future[AudioChunk]


@asynccontextmanager
async def in_batches(client: AsyncClient, size: int) -> AsyncIterator[Ask]:
    """The twin: at most `size` requests at once, none of the next batch before the last of this one."""
    waiting: asyncio.Queue[_Asked] = asyncio.Queue()

    async def ask(
        text: str, voice: str | None, parameters: Mapping[str, ParameterValue]
    ) -> AsyncIterator[AudioChunk]:
        spoken: asyncio.Future[AudioChunk] = asyncio.get_running_loop().create_future()
        began_s = time.perf_counter()
        waiting.put_nowait(_Asked(text, voice, parameters, spoken))
        whole = await spoken
        yield replace(whole, elapsed_s=time.perf_counter() - began_s)

    async def serve() -> None:
        while True:
            batch = [await waiting.get()]
            while len(batch) < size and not waiting.empty():
                batch.append(waiting.get_nowait())
            spoken = await asyncio.gather(*(_speak(client, one) for one in batch))
            for one, answer in zip(batch, spoken, strict=True):
                if isinstance(answer, SpeechError):
                    one.spoken.set_exception(answer)
                else:
                    one.spoken.set_result(answer)

    serving = asyncio.create_task(serve())
    try:
        yield ask
    finally:
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving


async def _speak(client: AsyncClient, asked: _Asked) -> AudioChunk | SpeechError:
    """The whole utterance, or why there is none."""
    try:
        speech = client.speak(asked.text, voice=asked.voice, **asked.parameters)  # type: ignore[arg-type]
        chunks = [chunk async for chunk in speech]
    except SpeechError as error:
        return error
    audio = np.concatenate([chunk.audio for chunk in chunks])
    return replace(chunks[-1], audio=audio, index=0)


def stable_rate(address: str, load: OpenLoad, parameters: Mapping[str, ParameterValue], size: int) -> float:
    """Requests a second of the twin where batches are always full."""
    num, draw = _SATURATED_BATCHES * size, np.random.default_rng(0)
    texts, seeds = draw.integers(len(load.length.texts), size=num), draw.integers(NUM_SEEDS, size=num)
    crowd = [Arrival(0.0, int(text), int(seed)) for text, seed in zip(texts, seeds, strict=True)]
    found = _answers(address, load, parameters, crowd, partial(in_batches, size=size))
    failed = [one.error for one in found.utterances if one.error]
    if failed:
        raise SystemExit(f"error: the twin was not spoken to: {failed[0]}")
    return num / found.wall_s


def _answers(
    address: str, load: OpenLoad, parameters: Mapping[str, ParameterValue], asked: Sequence[Arrival], way: Way
) -> Answers:
    return asyncio.run(answers(address, load.length.texts, load.voice, parameters, asked, way))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    for share in options.shares:
        if not 0 < share < 1:
            parser.error(f"--shares: {share:g}; more than 0 and less than 1 is allowed")
    repository = served_repository(options)
    environment = Environment.record(repository)
    limit, parameters = Limit(options.first_chunk_ms, options.dry_share), dict(options.set)
    ways: dict[str, Way] = {"streamed": directly, "twin": partial(in_batches, size=options.batch)}
    load = OpenLoad(0.0, options.seconds / options.slices, options.spacing, options.length, options.voice)
    with server_at(options.server, options.metrics, options.serve_option, repository) as server:
        rate = stable_rate(server.grpc, load, parameters, options.batch)
        print(f"the twin's stable rate: {rate:.2f} requests/s", file=sys.stderr, flush=True)
        levels: list[Level] = []
        for share in sorted(options.shares):
            offered = replace(load, rate=share * rate)
            parts: dict[str, list[Answers]] = {name: [] for name in ways}
            for part in range(options.slices):
                for name in ways if part % 2 == 0 else reversed(ways):
                    note = f"{share:.0%} of it, slice {part + 1} of {options.slices}: {name}"
                    print(note, file=sys.stderr, flush=True)
                    arrivals = offered.arrivals(part)
                    parts[name].append(_answers(server.grpc, offered, parameters, arrivals, ways[name]))
            held = memory.of(server)
            levels += [Level.of(name, offered, limit, parts[name], held) for name in ways]
    print(report.table(level.rows(levels)))
    for streamed, twin in zip(levels[::2], levels[1::2], strict=True):
        lower = level.lower_by(asdict(streamed.first_chunk_ms), asdict(twin.first_chunk_ms))
        print(f"at {streamed.load.rate:.2f} requests/s first chunk {lower}")
    report.save(options.out, "twin", environment, {"stable_rate": rate, "batch": options.batch}, levels)
    return 1 if any(one.failed for one in levels) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m perf.twin", description=__doc__)
    add_server_options(parser)
    add = parser.add_argument
    add("--batch", type=at_least(1), default=16, help="utterances of the twin at once (%(default)s)")
    add("--shares", type=float, nargs="+", default=[0.8], help="of the twin's stable rate (0.8)")
    add_open_load(parser)
    add_length(parser)
    add_slices(parser, seconds=40.0)
    add_set(parser)
    add("--out", type=Path, default=Path("perf/results/twin.json"), help="(%(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
