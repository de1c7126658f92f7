"""What the whole server says, and how fast: sentences one by one, then several streams at once."""

from __future__ import annotations

import time
import wave
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from talkahead_client import AudioChunk, Client, StopReason

from instruments.server import server_at
from perf.acceptance.recogniser import word_errors
from perf.texts import TEXTS

_SEED = 1


@dataclass(frozen=True)
class Sentences:
    """Said one after another.

    Args:
        ended: how many ended by themselves, and were not cut.
        word_errors_percent: None: no recogniser is here; of English.
    """

    voice: str
    said: int
    ended: int
    audio_s: float
    word_errors_percent: float | None

    @property
    def sentence(self) -> str:
        said = f"{self.said} sentences in the voice {self.voice} ({self.audio_s:.0f} s), {self.ended} ended"
        if self.word_errors_percent is None:
            return f"{said}; no recogniser was here."
        return f"{said}; {self.word_errors_percent:.1f} % word errors (Whisper tiny.en)."


@dataclass(frozen=True)
class Streams:
    """So many that each ask for their next text when the last has arrived.

    Args:
        real_time_factor: seconds that a second of a stream's speech took; under 1 it can be played.
    """

    streams: int
    first_chunk_ms: float
    real_time_factor: float

    @property
    def phrase(self) -> str:
        plural = "s" if self.streams > 1 else ""
        return (
            f"{self.streams} stream{plural}: first chunk {self.first_chunk_ms:,.0f} ms (median), "
            f"real-time factor {self.real_time_factor:.2f}"
        )


@dataclass(frozen=True)
class _Heard:
    audio: npt.NDArray[np.float32]
    rate_hz: int
    first_ms: float
    stopped: StopReason


class Listener:
    """One server's client.

    Args:
        folder: where each sentence is left as a WAV file.
        max_seconds: of one text, for a talker that does not end.
        voice: None: the server's first.
    """

    def __init__(self, client: Client, folder: Path, max_seconds: float, voice: str | None) -> None:
        self._client, self._folder, self._max_seconds = client, folder, max_seconds
        self._voice = voice or client.voices()[0]

    def sentences(self, count: int) -> Sentences:
        heard = [self._hear(text, _SEED + place) for place, text in enumerate(TEXTS[:count])]
        paths = [self._keep(place, one) for place, one in enumerate(heard)]
        return Sentences(
            voice=self._voice,
            said=len(heard),
            ended=sum(one.stopped is StopReason.END_OF_SPEECH for one in heard),
            audio_s=sum(len(one.audio) / one.rate_hz for one in heard),
            word_errors_percent=word_errors(TEXTS[:count], paths),
        )

    def streams(self, count: int, texts_each: int) -> Streams:
        with ThreadPoolExecutor(count) as pool:
            began = time.monotonic()
            parts = list(pool.map(lambda stream: list(self._stream(stream, texts_each)), range(count)))
            took = time.monotonic() - began
        heard = [one for part in parts for one in part]
        audio_s = sum(len(one.audio) / one.rate_hz for one in heard)
        median = float(np.median([one.first_ms for one in heard]))
        return Streams(count, median, took * count / audio_s)

    def _stream(self, stream: int, texts: int) -> Iterator[_Heard]:
        for place in range(texts):
            yield self._hear(TEXTS[(7 * stream + place) % len(TEXTS)], 1_000 * stream + place)

    def _hear(self, text: str, seed: int) -> _Heard:
        chunks, first_ms = list[AudioChunk](), 0.0
        for chunk in self._client.speak(
            text, voice=self._voice, seed=seed, max_seconds=self._max_seconds, chunk_deadline_s=600.0
        ):
            first_ms = first_ms or 1e3 * chunk.elapsed_s
            chunks.append(chunk)
        audio = np.concatenate([chunk.audio for chunk in chunks])
        return _Heard(audio, chunks[-1].sample_rate_hz, first_ms, StopReason(chunks[-1].stats.stop_reason))

    def _keep(self, place: int, one: _Heard) -> Path:
        path = self._folder / f"{place:02}.wav"
        with wave.open(str(path), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(one.rate_hz)
            file.writeframes((one.audio.clip(-1, 1) * 32_767).astype("<i2").tobytes())
        return path


def listen(
    repository: Path,
    folder: Path,
    *,
    sentences: int,
    streams: Sequence[int],
    max_seconds: float,
    voice: str | None,
) -> tuple[Sentences, tuple[Streams, ...]]:
    """Of a server of its own."""
    quietly = ["--check-interval", "0"]
    with server_at(None, None, quietly, repository) as server, Client(server.grpc) as client:
        listener = Listener(client, folder, max_seconds, voice)
        said = listener.sentences(sentences)
        return said, tuple(listener.streams(count, texts_each=2) for count in streams)
