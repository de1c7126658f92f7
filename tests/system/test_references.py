"""Speech like a recording's: over many segments, beside others, and again from the encoder's cache."""

from __future__ import annotations

import subprocess
import sys
import wave
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hearing import SAME_FRAMES, Audio, difference, speak
from served import Served
from talkahead_client import AsyncClient, Client, Reference
from talkahead_client.pcm import to_s16le
from texts import SENTENCES, prose
from waiting import eventually

SAID = SENTENCES[1]
LIMIT_S = 60.0


@pytest.fixture(scope="module")
def recordings(client: Client) -> list[Audio]:
    """The same words by each voice of the server."""
    return [speak(client, SAID, voice=voice, seed=3, max_seconds=5.0).audio for voice in client.voices()]


def lookups(server: Served, result: str) -> float:
    return server.metric(f'talkahead_voice_cache_lookups{{result="{result}"}}')


def test_a_reference_is_a_voice_for_every_segment(client: Client, recordings: list[Audio]) -> None:
    text, options = " ".join(SENTENCES[:4]), {"seed": 5, "max_seconds": 30.0}
    prompted = speak(client, text, reference=Reference(recordings[0], SAID), **options)
    assert prompted.stats.char_end == len(text)
    assert difference(prompted.audio, speak(client, text, **options).audio) > SAME_FRAMES


def test_the_same_words_of_two_voices_are_two_voices(client: Client, recordings: list[Audio]) -> None:
    """Also when the first is in the cache: a cache keyed by the transcript would answer with it."""
    options = {"seed": 5, "max_seconds": 2.0}
    one, other, again = (
        speak(client, SENTENCES[0], reference=Reference(recordings[which], SAID), **options).audio
        for which in (0, 1, 0)
    )
    assert difference(one, other) > SAME_FRAMES
    assert difference(one, again) < SAME_FRAMES


def test_a_reference_is_encoded_once(server: Served, client: Client, recordings: list[Audio]) -> None:
    fresh = Reference(recordings[0] * np.float32(0.5), SAID)
    hits, misses = lookups(server, "hit"), lookups(server, "miss")
    first, again = (
        speak(client, " ".join(SENTENCES[:2]), reference=fresh, seed=5, max_seconds=9.0).audio for _ in "12"
    )
    assert difference(first, again) < SAME_FRAMES
    eventually(lambda: lookups(server, "miss") - misses, lambda count: count == 1)
    eventually(lambda: lookups(server, "hit") - hits, lambda count: count == 1)
    assert server.metric("talkahead_voice_cache_bytes") > 0


def test_references_and_named_voices_side_by_side_change_nothing(
    client: Client, recordings: list[Audio]
) -> None:
    references = [Reference(audio, SAID) for audio in recordings]

    def spoken(number: int) -> Audio:
        """Every third stream by a named voice, the others by turns like the recordings."""
        like = {"reference": references[number % 2]} if number % 3 else {}
        return speak(client, SENTENCES[number], seed=number, max_seconds=2.0, **like).audio

    alone = [spoken(number) for number in range(12)]
    with ThreadPoolExecutor(12) as pool:
        together = list(pool.map(spoken, range(12)))
    assert [difference(*pair) < SAME_FRAMES for pair in zip(alone, together, strict=True)] == [True] * 12


def test_a_prompted_stream_that_is_left_leaves_nothing(client: Client, recordings: list[Audio]) -> None:
    with client.speak(prose(3_000), reference=Reference(recordings[0], SAID)) as speech:
        next(speech)
    eventually(lambda: client.load().details["open_streams"], lambda streams: streams == 0)
    speak(client, SENTENCES[0], reference=Reference(recordings[0], SAID), max_seconds=1.0)


async def test_the_asyncio_client_speaks_like_a_recording(
    server: Served, client: Client, recordings: list[Audio]
) -> None:
    options = {"reference": Reference(recordings[0], SAID), "seed": 5, "max_seconds": 2.0}
    async with AsyncClient(server.grpc) as asynchronous:
        chunks = [chunk.audio async for chunk in asynchronous.speak(SENTENCES[0], **options)]
    expected = speak(client, SENTENCES[0], **options).audio
    assert difference(np.concatenate(chunks), expected) < SAME_FRAMES


def test_the_command_speaks_like_a_recording(
    server: Served, client: Client, recordings: list[Audio], tmp_path: Path
) -> None:
    with wave.open(str(tmp_path / "voice.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(client.sample_rate_hz())
        file.writeframes(to_s16le(recordings[0]))
    arguments = ["--reference", tmp_path / "voice.wav", "--reference-text", SAID, "-o", tmp_path / "out.wav"]
    command = [
        sys.executable,
        "-m",
        "talkahead_client.say",
        "--server",
        server.grpc,
        *arguments,
        SENTENCES[0],
    ]
    done = subprocess.run(list(map(str, command)), capture_output=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr
    with wave.open(str(tmp_path / "out.wav")) as file:
        assert file.getnframes() > 0
