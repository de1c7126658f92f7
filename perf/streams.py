"""Streams that speak one text after another."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from talkahead_client import AudioChunk, SpeechError
from talkahead_client.protocol import ParameterValue

from perf.texts import TEXTS
from perf.utterance import Hearing, Utterance

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


class Speaker(Protocol):
    """What asks a server; the client is one."""

    @property
    def speak(self) -> Callable[..., Iterable[AudioChunk]]:
        """Called with a text, a voice and request parameters; raises SpeechError."""


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

    def run(self, speaker: Speaker) -> list[Utterance]:
        """Every utterance that began within `seconds`; each stream speaks at least one."""
        start = threading.Barrier(self.streams)
        with ThreadPoolExecutor(self.streams) as pool:
            spoken = pool.map(lambda stream: self._stream(speaker, stream, start), range(self.streams))
            return [utterance for utterances in spoken for utterance in utterances]

    def _stream(self, speaker: Speaker, stream: int, start: threading.Barrier) -> list[Utterance]:
        start.wait()
        began_s = time.perf_counter()
        if self.mode is Mode.PLAYING:
            # Listeners do not start together.
            time.sleep(random.Random(stream).uniform(0, min(_STAGGER_S, self.seconds / 2)))
        spoken: list[Utterance] = []
        while not spoken or time.perf_counter() - began_s < self.seconds:
            spoken.append(self._speak(speaker, stream, len(spoken), began_s))
        return spoken

    def _speak(self, speaker: Speaker, stream: int, place: int, began_s: float) -> Utterance:
        text = (_STRIDE * stream + _PART_STRIDE * self.part + place) % len(TEXTS)
        parameters: dict[str, ParameterValue] = {"seed": self._seed(stream, place), **self.parameters}
        started_s = time.perf_counter()
        hearing = Hearing(stream, text, started_s - began_s)
        try:
            for chunk in speaker.speak(TEXTS[text], voice=self.voice, **parameters):
                hearing.hear(chunk)
        except SpeechError as failure:
            hearing.fail(failure)
            time.sleep(_ERROR_PAUSE_S)
        if self.mode is Mode.PLAYING:
            time.sleep(max(0.0, started_s + hearing.played_out_s - time.perf_counter()))
        return hearing.utterance()

    def _seed(self, stream: int, place: int) -> int:
        return _SEEDS * (self.streams * self.part + stream) + place
