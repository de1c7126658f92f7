"""Speech like a recording's: over many segments, beside others, and again from the encoder's cache; and
recordings that nothing is spoken like. It takes a codec with an encoder: a small one of Llasa's kind.
"""

from __future__ import annotations

import subprocess
import sys
import wave
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from decoded_audio import decoded
from front_door import FrontDoor
from hearing import Audio, Company, Utterance, difference
from imported import SAME_FRAMES, Imported, imported, write_llasa
from openai import BadRequestError, OpenAI
from raw import Tensors, refusal, speech_request, strings
from talkahead_client import AsyncClient, Reference
from talkahead_client.pcm import to_s16le
from texts import SENTENCES, prose
from waiting import eventually

pytestmark = pytest.mark.patient

SAID = SENTENCES[1]
LIMIT_S = 60.0
RATE_HZ = 16_000
"""Llasa's."""
NEIGHBOUR: dict[str, Any] = {"text": prose(600), "seed": 11}


def noise(seed: int, seconds: float = 2.0) -> Audio:
    sound = np.random.default_rng(seed).standard_normal(int(seconds * RATE_HZ))
    return (0.1 * sound).clip(-0.9, 0.9).astype(np.float32)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Imported]:
    with imported("llasa", write_llasa, tmp_path_factory.mktemp("llasa")) as made:
        assert made.speech.sample_rate_hz == RATE_HZ
        yield made


@pytest.fixture(scope="module")
def recordings() -> list[Audio]:
    """Sounds as different as two voices: a hiss, and a rumble."""
    rumble = np.convolve(noise(1), np.full(32, 0.2, np.float32), "same").clip(-0.9, 0.9)
    return [noise(0), rumble.astype(np.float32)]


def lookups(house: Imported, result: str) -> float:
    return house.server.metric("talkahead_voice_cache_lookups_total", result=result)


def test_a_reference_is_encoded_once(house: Imported, recordings: list[Audio]) -> None:
    """The first to ask this server, of whose page nothing is still to come."""
    fresh = Reference(recordings[0] * np.float32(0.5), SAID)
    hits, misses = lookups(house, "hit"), lookups(house, "miss")
    first, again = (
        house.speak(" ".join(SENTENCES[:2]), reference=fresh, seed=5, max_seconds=9.0).audio for _ in "12"
    )
    assert difference(first, again) < SAME_FRAMES
    eventually(lambda: lookups(house, "miss") - misses, lambda count: count == 1)
    eventually(lambda: lookups(house, "hit") - hits, lambda count: count == 1)
    assert house.server.metric("talkahead_voice_cache_bytes") > 0


def test_a_reference_is_a_voice_for_every_segment(house: Imported, recordings: list[Audio]) -> None:
    text, options = " ".join(SENTENCES[:4]), {"seed": 5, "max_seconds": 30.0}
    prompted = house.speak(text, reference=Reference(recordings[0], SAID), **options)
    assert prompted.stats.char_end == len(text)
    assert len({chunk.stats.char_end for chunk in prompted.chunks}) > 1, "it is one segment"
    assert difference(prompted.audio, house.speak(text, **options).audio) > SAME_FRAMES


def test_the_same_words_of_two_voices_are_two_voices(house: Imported, recordings: list[Audio]) -> None:
    """Also when the first is in the cache: a cache keyed by the transcript would answer with it."""
    options = {"seed": 5, "max_seconds": 2.0}
    one, other, again = (
        house.speak(SENTENCES[0], reference=Reference(recordings[which], SAID), **options).audio
        for which in (0, 1, 0)
    )
    assert difference(one, other) > SAME_FRAMES
    assert difference(one, again) < SAME_FRAMES


def test_references_and_named_voices_side_by_side_change_nothing(
    house: Imported, recordings: list[Audio]
) -> None:
    references = [Reference(audio, SAID) for audio in recordings]

    def spoken(number: int) -> Audio:
        """Every third stream by the named voice, the others by turns like the recordings."""
        like = {"reference": references[number % 2]} if number % 3 else {}
        return house.speak(SENTENCES[number], seed=number, max_seconds=2.0, **like).audio

    alone = [spoken(number) for number in range(12)]
    with ThreadPoolExecutor(12) as pool:
        together = list(pool.map(spoken, range(12)))
    assert [difference(*pair) < SAME_FRAMES for pair in zip(alone, together, strict=True)] == [True] * 12


def test_a_prompted_stream_that_is_left_leaves_nothing(house: Imported, recordings: list[Audio]) -> None:
    with house.client.speak(prose(3_000), reference=Reference(recordings[0], SAID)) as speech:
        next(speech)
    eventually(lambda: house.client.load().details["open_streams"], lambda streams: streams == 0)
    house.speak(SENTENCES[0], reference=Reference(recordings[0], SAID), max_seconds=1.0)


async def test_the_asyncio_client_speaks_like_a_recording(house: Imported, recordings: list[Audio]) -> None:
    options = {"reference": Reference(recordings[0], SAID), "seed": 5, "max_seconds": 2.0}
    async with AsyncClient(house.server.grpc) as asynchronous:
        chunks = [chunk.audio async for chunk in asynchronous.speak(SENTENCES[0], **options)]
    expected = house.speak(SENTENCES[0], **options).audio
    assert difference(np.concatenate(chunks), expected) < SAME_FRAMES


def test_a_recording_that_was_left_at_the_gateway_is_a_voice(
    house: Imported, recordings: list[Audio], tmp_path: Path
) -> None:
    samples = to_s16le(recordings[0])
    sample = write_wav(tmp_path / "voice.wav", samples)
    options = {"seed": 5, "max_seconds": 2.0}
    with (
        FrontDoor(house.server.grpc) as door,
        OpenAI(base_url=f"{door.url}/v1", api_key="any", max_retries=0) as sdk,
    ):
        made = sdk.audio.voices.create(
            name="hiss", audio_sample=sample, consent="mine", extra_body={"ref_text": SAID}
        )
        form: dict[str, Any] = {"model": "tts-1", "input": SENTENCES[0], "response_format": "pcm"}
        said = sdk.audio.speech.create(
            voice={"id": made.id}, extra_body={"sample_rate": RATE_HZ, **options}, **form
        ).content
        with pytest.raises(BadRequestError, match="audio_sample") as caught:
            short = write_wav(tmp_path / "short.wav", samples[:RATE_HZ])
            sdk.audio.voices.create(
                name="short", audio_sample=short, consent="mine", extra_body={"ref_text": SAID}
            )
    print(caught.value.message)
    heard = np.frombuffer(samples, "<i2").astype(np.float32) / 32_768
    own = house.speak(SENTENCES[0], reference=Reference(heard, SAID), **options).audio
    assert difference(decoded("pcm", said, RATE_HZ)[0], own) < SAME_FRAMES + 1 / 32_767


def write_wav(path: Path, samples: bytes) -> Path:
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, RATE_HZ, 0, "NONE", ""))
        file.writeframes(samples)
    return path


def test_the_command_speaks_like_a_recording(
    house: Imported, recordings: list[Audio], tmp_path: Path
) -> None:
    write_wav(tmp_path / "voice.wav", to_s16le(recordings[0]))
    arguments = ["--reference", tmp_path / "voice.wav", "--reference-text", SAID, "-o", tmp_path / "out.wav"]
    command = [
        sys.executable,
        "-m",
        "talkahead_client.say",
        "--server",
        house.server.grpc,
        *arguments,
        SENTENCES[0],
    ]
    done = subprocess.run(list(map(str, command)), capture_output=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr
    with wave.open(str(tmp_path / "out.wav")) as file:
        assert file.getnframes() > 0


# Recordings that nothing is spoken like


def hush(audio: Audio, said: str = "Hush.") -> Tensors:
    return {"REFERENCE_AUDIO": audio[None].astype(np.float32), "REFERENCE_TEXT": strings(said)}


NOISE = noise(2)
BAD: dict[str, tuple[Tensors, tuple[str, ...]]] = {
    "and a voice": (
        {"VOICE": strings("default"), **hush(NOISE)}, ("VOICE", "'default'", "nothing beside a reference"),
    ),
    "without its text": ({"REFERENCE_AUDIO": NOISE[None]}, ("REFERENCE_TEXT", "what is said in")),
    "its text alone": ({"REFERENCE_TEXT": strings("Hush.")}, ("REFERENCE_AUDIO", "a recording of")),
    "silence": (hush(0 * NOISE), ("0.0 s of speech", "at least 1 s of speech")),
    "half a second": (hush(NOISE[: RATE_HZ // 2]), ("0.5 s of speech", "at least 1 s")),
    "no samples": (hush(NOISE[:0]), ("0.0 s of speech", "at least 1 s")),
    "a minute": (hush(np.tile(NOISE, 30)), ("60.0 s", "at most 30 s")),
    "too long for the talker": (hush(np.tile(NOISE, 14)), ("s of speech", "50 for a second")),
    "16 bits": (hush(32_768 * NOISE), ("from -1 to 1", "divide by 32,768")),
    "a NaN": (hush(np.full_like(NOISE, np.nan)), ("nan", "finite samples")),
    "clipped": (hush(np.sign(NOISE)), ("100%", "not clipped")),
    "many words": (hush(NOISE, prose(501)), ("REFERENCE_TEXT", "1 to 500 characters")),
}  # fmt: skip


@pytest.fixture(scope="module")
def alone(house: Imported) -> Utterance:
    return house.speak(**NEIGHBOUR)


@pytest.mark.parametrize("name", BAD)
def test_refusal_of_a_reference_says_what_is_allowed(name: str, house: Imported, alone: Utterance) -> None:
    tensors, says = BAD[name]
    with Company(house.client, alone, house.speech, **NEIGHBOUR):
        text = refusal(house.server.grpc, speech_request("Hello there.", tensors))
    assert [part for part in says if part not in text] == [], text
