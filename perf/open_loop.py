"""A load whose requests arrive when they arrive, whatever the server does with those before."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

from talkahead_client import AudioChunk, SpeechError
from talkahead_client.aio import AsyncClient
from talkahead_client.protocol import ParameterValue

from perf.arrivals import Arrival, Length, Spacing, arrivals
from perf.utterance import Hearing, Utterance

NUM_SEEDS = 4
"""That each text is spoken with, so that what is said comes round again."""


Ask = Callable[[str, str | None, Mapping[str, ParameterValue]], AsyncIterator[AudioChunk]]
"""Speaks a text with a voice, as the parameters of a request say."""
Way = Callable[[AsyncClient], AbstractAsyncContextManager[Ask]]
"""From the client of a server to what is asked to speak."""


@asynccontextmanager
async def directly(client: AsyncClient) -> AsyncIterator[Ask]:
    """The server itself."""

    def ask(
        text: str, voice: str | None, parameters: Mapping[str, ParameterValue]
    ) -> AsyncIterator[AudioChunk]:
        return client.speak(text, voice=voice, **parameters)  # type: ignore[arg-type]

    yield ask


@dataclass(frozen=True)
class OpenLoad:
    """So many requests a second, for so long."""

    rate: float
    seconds: float
    spacing: Spacing
    length: Length
    voice: str | None = None

    def arrivals(self, part: int) -> list[Arrival]:
        """Of one part, which is that long."""
        return arrivals(self.rate, self.seconds, self.spacing, len(self.length.texts), NUM_SEEDS, part)


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
    asked = load.arrivals(part)
    return asyncio.run(answers(address, load.length.texts, load.voice, parameters, asked))


async def answers(
    address: str,
    texts: Sequence[str],
    voice: str | None,
    parameters: Mapping[str, ParameterValue],
    asked: Sequence[Arrival],
    way: Way = directly,
) -> Answers:
    """Sends what arrives, each when its time has come, and waits for all answers.

    Args:
        address: of the server.
    """
    async with AsyncClient(address) as client, way(client) as ask, asyncio.TaskGroup() as group:
        await client.voices()  # the connection is not part of the first request
        speaker = _Speaker(ask, texts, voice, parameters, time.perf_counter())
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

    speak: Ask
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
            async for chunk in self.speak(text, self.voice, parameters):
                hearing.hear(chunk)
        except SpeechError as failure:
            hearing.fail(failure)
        return hearing.utterance(), 1e3 * (started_s - arrival.at_s)
