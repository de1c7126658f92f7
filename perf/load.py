"""Streams that speak one text after another, and what each utterance felt like."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from talkahead_client import Client, Figures, Listener, SpeechError, Stats
from talkahead_client.protocol import ParameterValue

from perf.texts import TEXTS

_STAGGER_S = 3.0
_ERROR_PAUSE_S = 0.2
"""A server that refuses everything is not to be measured by how often it can."""
_STRIDE = 7
"""Between the first texts of neighbouring streams, so that they do not say the same together."""
_PART_STRIDE = 5
"""Between a stream's first texts in neighbouring parts of a load."""
_SEEDS = 10_000
"""For each stream of each part; more utterances than a stream speaks."""


class Mode(StrEnum):
    """When a stream sends its next request."""

    CLOSED = "closed"
    """As soon as the last has arrived: the highest load that so many streams can make."""
    PLAYING = "playing"
    """When the last would have finished playing: what so many listeners make."""


@dataclass(frozen=True)
class Utterance:
    """One request and its answer. Times since the request; `started_s` since the load began."""

    stream: int
    text: int
    started_s: float
    figures: Figures | None
    stats: Stats | None
    """The server's totals; None where it failed, as the figures are."""
    error: str | None
    arrivals_ms: tuple[float, ...]
    durations_ms: tuple[float, ...]

    @property
    def gaps_ms(self) -> list[float]:
        return [later - earlier for earlier, later in pairwise(self.arrivals_ms)]

    @property
    def ended_s(self) -> float:
        """Arrival of the last chunk, since the load began."""
        return self.started_s + (self.arrivals_ms[-1] / 1e3 if self.arrivals_ms else 0.0)

    def audio_until(self, end_s: float) -> float:
        """Seconds of audio that had arrived by then."""
        pieces = zip(self.arrivals_ms, self.durations_ms, strict=True)
        return sum(duration for arrival, duration in pieces if self.started_s + arrival / 1e3 <= end_s) / 1e3


@dataclass(frozen=True)
class Load:
    """So many streams, for so long. Texts and seeds follow from stream, place and part: whoever runs the same
    part says the same."""

    mode: Mode
    streams: int
    seconds: float
    voice: str | None
    parameters: Mapping[str, ParameterValue]
    part: int = 0

    def run(self, client: Client) -> list[Utterance]:
        """Every utterance that began within `seconds`; each stream speaks at least one."""
        start = threading.Barrier(self.streams)
        with ThreadPoolExecutor(self.streams) as pool:
            spoken = pool.map(lambda stream: self._stream(client, stream, start), range(self.streams))
            return [utterance for utterances in spoken for utterance in utterances]

    def _stream(self, client: Client, stream: int, start: threading.Barrier) -> list[Utterance]:
        start.wait()
        began_s = time.perf_counter()
        if self.mode is Mode.PLAYING:
            # Listeners do not start together.
            time.sleep(random.Random(stream).uniform(0, min(_STAGGER_S, self.seconds / 2)))
        spoken: list[Utterance] = []
        while not spoken or time.perf_counter() - began_s < self.seconds:
            spoken.append(self._speak(client, stream, len(spoken), began_s))
        return spoken

    def _speak(self, client: Client, stream: int, place: int, began_s: float) -> Utterance:
        text = (_STRIDE * stream + _PART_STRIDE * self.part + place) % len(TEXTS)
        parameters: dict[str, ParameterValue] = {"seed": self._seed(stream, place), **self.parameters}
        started_s = time.perf_counter()
        listener = Listener()
        arrivals_ms, durations_ms = [], []
        stats, error = None, None
        try:
            for chunk in client.speak(TEXTS[text], voice=self.voice, **parameters):  # type: ignore[arg-type]
                listener.hear(chunk)
                arrivals_ms.append(1e3 * chunk.elapsed_s)
                durations_ms.append(1e3 * chunk.duration_s)
                stats = chunk.stats
        except SpeechError as failure:
            error = f"{failure.code}: {failure}"
            time.sleep(_ERROR_PAUSE_S)
        if self.mode is Mode.PLAYING:
            time.sleep(max(0.0, started_s + listener.played_out_s - time.perf_counter()))
        is_heard = error is None and stats is not None
        return Utterance(
            stream=stream,
            text=text,
            started_s=started_s - began_s,
            figures=listener.figures() if is_heard else None,
            stats=stats if is_heard else None,
            error=error,
            arrivals_ms=tuple(arrivals_ms),
            durations_ms=tuple(durations_ms),
        )

    def _seed(self, stream: int, place: int) -> int:
        return _SEEDS * (self.streams * self.part + stream) + place
