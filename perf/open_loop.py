"""A load whose requests arrive when they arrive, whatever the server does with those before."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from talkahead_client import SpeechError
from talkahead_client.aio import AsyncClient
from talkahead_client.protocol import ParameterValue

from perf.arrivals import Arrival, Length, Spacing, arrivals
from perf.utterance import Hearing, Utterance

NUM_SEEDS = 4
"""That each text is spoken with, so that what is said comes round again."""


@dataclass(frozen=True)
class OpenLoad:
    """So many requests a second, for so long."""

    rate: float
    seconds: float
    spacing: Spacing
    length: Length
    voice: str | None = None


@dataclass(frozen=True)
class Answers:
    """What became of the requests of one part, in their order.

    Args:
        wall_s: from the beginning until the last one had been answered.
        late_ms: of each, how much later than meant it was sent; where that is much, the generator was the
            bottleneck.
        generator_share: of one core, that sending and hearing took.
    """

    wall_s: float
    utterances: list[Utterance]
    late_ms: list[float]
    generator_share: float


def run(address: str, load: OpenLoad, parameters: Mapping[str, ParameterValue], part: int) -> Answers:
    """Sends one part of the load, and waits for all its answers; a failure is an answer too."""
    texts = load.length.texts
    asked = arrivals(load.rate, load.seconds, load.spacing, len(texts), NUM_SEEDS, part)
    return asyncio.run(_run(address, texts, load.voice, parameters, asked))


async def _run(
    address: str,
    texts: Sequence[str],
    voice: str | None,
    parameters: Mapping[str, ParameterValue],
    asked: Sequence[Arrival],
) -> Answers:
    async with AsyncClient(address) as client, asyncio.TaskGroup() as group:
        await client.voices()  # the connection is not part of the first request
        speaker = _Speaker(client, texts, voice, parameters, time.perf_counter())
        began_s, busy_s = speaker.began_s, time.process_time()
        tasks = []
        for place, arrival in enumerate(asked):
            await asyncio.sleep(began_s + arrival.at_s - time.perf_counter())
            tasks.append(group.create_task(speaker.ask(place, arrival)))
        found = [await task for task in tasks]
        wall_s = time.perf_counter() - began_s
        busy_s = time.process_time() - busy_s
    return Answers(wall_s, [one for one, _ in found], [late for _, late in found], busy_s / wall_s)


@dataclass(frozen=True)
class _Speaker:
    """Asks for one text after another, each in a task of its own."""

    client: AsyncClient
    texts: Sequence[str]
    voice: str | None
    parameters: Mapping[str, ParameterValue]
    began_s: float

    async def ask(self, place: int, arrival: Arrival) -> tuple[Utterance, float]:
        """The answer, and by how many milliseconds the request was late."""
        parameters: dict[str, ParameterValue] = {"seed": arrival.seed, **self.parameters}
        text = self.texts[arrival.text]
        started_s = time.perf_counter() - self.began_s
        hearing = Hearing(place, arrival.text, started_s)
        try:
            async for chunk in self.client.speak(text, voice=self.voice, **parameters):  # type: ignore[arg-type]
                hearing.hear(chunk)
        except SpeechError as failure:
            hearing.fail(failure)
        return hearing.utterance(), 1e3 * (started_s - arrival.at_s)
