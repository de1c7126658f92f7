"""What a client heard of one utterance, whether it was whole, and how far two hearings differ."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pytest
from shipped import SPEECH
from talkahead.speech_format import SpeechFormat
from talkahead_client import AudioChunk, Client, Stats, StopReason, Word

Audio = npt.NDArray[np.float32]

SAME_FRAMES = 1e-5
"""Bound on the difference, in full scale, between two decodings of the same frames (seen: 8e-7, by the shape
of the batch). Other frames differ by a thousand times more."""


@dataclass(frozen=True)
class Utterance:
    """The chunks of one stream that ended without an error."""

    chunks: tuple[AudioChunk, ...]

    @property
    def audio(self) -> Audio:
        return np.concatenate([chunk.audio for chunk in self.chunks])

    @property
    def words(self) -> tuple[Word, ...]:
        return tuple(word for chunk in self.chunks for word in chunk.words)

    @property
    def last(self) -> AudioChunk:
        return self.chunks[-1]

    @property
    def stats(self) -> Stats:
        """The totals of the stream."""
        return self.last.stats

    def check(self, speech: SpeechFormat = SPEECH, speed: float = 1.0) -> Utterance:
        """Fails unless it is one stream, in order, ended once, with all the audio that it claims."""
        assert [chunk.index for chunk in self.chunks] == list(range(len(self.chunks)))
        assert [chunk.is_last for chunk in self.chunks] == [False] * (len(self.chunks) - 1) + [True]
        assert all(len(chunk.audio) for chunk in self.chunks)
        assert {chunk.stats.stream for chunk in self.chunks} == {self.stats.stream}
        assert {chunk.sample_rate_hz for chunk in self.chunks} == {speech.sample_rate_hz}
        reasons = [StopReason(chunk.stats.stop_reason) for chunk in self.chunks]
        assert set(reasons[:-1]) <= {StopReason.RUNNING}
        assert reasons[-1] in (StopReason.END_OF_SPEECH, StopReason.LENGTH, StopReason.MAX_SECONDS)
        lengths = np.cumsum([len(chunk.audio) for chunk in self.chunks])
        (samples,) = set(lengths / [chunk.stats.frames for chunk in self.chunks])
        check_frame(samples, speech, speed)
        audio = self.audio
        assert np.isfinite(audio).all()
        assert np.abs(audio).max() <= 1.0
        return self


def check_frame(samples: float, speech: SpeechFormat, speed: float) -> None:
    """Fails unless a frame has so many samples at a speed: a codec may round them to some that suit it."""
    assert samples == int(samples)
    assert samples == pytest.approx(speech.hop / speed, rel=0.003 if speed != 1 else 0)


def hear(chunks: Iterable[AudioChunk], speech: SpeechFormat = SPEECH, speed: float = 1.0) -> Utterance:
    return Utterance(tuple(chunks)).check(speech, speed)


def speak(client: Client, text: str, **options: Any) -> Utterance:  # noqa: ANN401
    """A whole utterance."""
    return hear(client.speak(text, **options), speed=options.get("speed", 1.0))


def difference(one: Audio, other: Audio) -> float:
    """The largest between two samples in the same place; infinite where the lengths differ."""
    return float(np.abs(one - other).max()) if len(one) == len(other) else math.inf


class Neighbour:
    """A stream that speaks while something else happens; `finish` proves that it did not suffer.

    Args:
        alone: the same request, spoken while nothing else was.
        speech: what the server's voice is like.
    """

    def __init__(
        self,
        client: Client,
        alone: Utterance,
        speech: SpeechFormat = SPEECH,
        **request: Any,  # noqa: ANN401
    ) -> None:
        self._alone = alone
        self._format = speech
        self._began_s = time.perf_counter()
        self._speech = client.speak(**request)
        self._first = next(self._speech)

    def finish(self, after_s: float = -math.inf) -> None:
        """Hears the rest, which must end after `after_s` of `time.perf_counter`."""
        utterance = hear([self._first, *self._speech], self._format)
        assert self._began_s + utterance.last.elapsed_s > after_s, "the neighbour had ended before"
        assert difference(utterance.audio, self._alone.audio) < SAME_FRAMES


class Company:
    """One stream after another, all of one request, while something else happens: none of them may suffer.

    So there is a neighbour however long that takes. `with` begins when the first one is heard, and ends with
    the last one's end.

    Args:
        request: what makes a `Neighbour`.
    """

    def __init__(self, *request: Any, **options: Any) -> None:  # noqa: ANN401
        self._come = partial(Neighbour, *request, **options)
        self._is_enough = threading.Event()
        self._pool = ThreadPoolExecutor(1)

    def __enter__(self) -> Self:
        self._heard = self._pool.submit(self._hear, self._come())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._is_enough.set()
        self._pool.shutdown()
        if error is None:
            self._heard.result()

    def _hear(self, first: Neighbour) -> None:
        first.finish()
        while not self._is_enough.is_set():
            self._come().finish()
