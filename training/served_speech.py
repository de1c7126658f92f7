"""What the running server says, with the places where its pieces meet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
from talkahead_client import AudioChunk, Client, Reference, Word

from instruments.recording import Recording


@dataclass(frozen=True)
class Request:
    """A text, and who speaks it, a voice of the server or a recording to speak like, and how fast."""

    text: str
    voice: str | None = None
    reference: Reference | None = None
    speed: float = 1.0


@dataclass(frozen=True)
class ServedSpeech:
    """A recording, the first sample of every chunk and of every segment but the first, and its words."""

    recording: Recording
    chunk_joins: tuple[int, ...]
    segment_joins: tuple[int, ...]
    words: tuple[Word, ...] = ()


def join(chunks: Sequence[AudioChunk]) -> ServedSpeech:
    """An utterance from its chunks. `char_end` grows with the last chunk of each segment."""
    starts = list(accumulate(len(chunk.audio) for chunk in chunks[:-1]))
    spoken = [0, *(chunk.stats.char_end for chunk in chunks)]
    ends_segment = [before < after for before, after in pairwise(spoken)]
    return ServedSpeech(
        Recording(np.concatenate([chunk.audio for chunk in chunks]), chunks[0].sample_rate_hz),
        tuple(start for start, ends in zip(starts, ends_segment[:-1], strict=True) if not ends),
        tuple(start for start, ends in zip(starts, ends_segment[:-1], strict=True) if ends),
        tuple(word for chunk in chunks for word in chunk.words),
    )


def speak_all(server: str, requests: Sequence[Request], streams: int, seed: int) -> Iterator[ServedSpeech]:
    """The server's speech at its own defaults, `streams` at a time, in order."""

    def speak(request: Request) -> ServedSpeech:
        speech = client.speak(
            request.text, voice=request.voice, reference=request.reference, seed=seed, speed=request.speed
        )
        return join(list(speech))

    with Client(server) as client, ThreadPoolExecutor(streams) as pool:
        yield from pool.map(speak, requests)
