"""Rung (b) of exactness, as served: streamed audio against offline decoding, and company against solitude."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from hearing import SAME_FRAMES, Audio, Utterance, difference, hear, speak
from pipeline import Frames, frames_of
from served import REPOSITORY, Served, served
from shipped import CODEC, FAMILY, SPEECH, VOICES
from talkahead.backbone.decoder_choice import Precision
from talkahead.families.contracts import Codec, CodecWindow
from talkahead_client import Client
from texts import SENTENCES
from waiting import eventually

from instruments.changed_repository import changed_repository

pytestmark = pytest.mark.patient

SECONDS = 2.0
PATIENT: dict[str, Any] = {"max_seconds": SECONDS, "urgency": 1, "drafter": "heads"}
"""Who waits, however slow the machine is, and is not refused."""
UTTERANCES = 64
NEIGHBOURS = 15


@pytest.fixture(scope="module")
def codec() -> Codec:
    return FAMILY.codec(CODEC, torch.device("cpu"))


@pytest.fixture(
    scope="module",
    params=[
        Precision.FLOAT32,
        pytest.param(Precision.BFLOAT16, marks=pytest.mark.needs("bfloat16")),
        pytest.param(Precision.INT8, marks=pytest.mark.needs("int8")),
    ],
)
def precise(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Of a server whose talker computes in one precision: the narrow one makes much of little differences."""
    precision: Precision = request.param
    folder = tmp_path_factory.mktemp(precision) / "models"
    # Half a minute less: streams draft because they ask for it, not for what steps were measured to cost.
    changes = {"talker.precision": precision, "talker.measure_steps": "false"}
    repository = changed_repository(REPOSITORY, folder, changes)
    with served("--repository", repository) as server, Client(server.grpc) as client:
        yield client


def offline(codec: Codec, segments: list[Frames], speed: float = 1.0, voice: int = 0) -> Audio:
    """Each segment's frames decoded whole, one after another, but for those that are not heard."""
    windows = [CodecWindow.whole(frames, speed, voice) for frames in segments]
    decoded = [codec.decode([window], [None])[0].audio.reshape(window.new, -1) for window in windows]
    return np.concatenate([frames[SPEECH.unheard_frames :].ravel() for frames in decoded])


def num_heard(segments: list[Frames]) -> int:
    return sum(len(frames) - SPEECH.unheard_frames for frames in segments)


@pytest.mark.parametrize(
    "options",
    [{}, {"first_chunk_frames": 1, "chunk_frames": 3}, {"first_chunk_frames": 250, "chunk_frames": 250}],
    ids=["default chunks", "small chunks", "large chunks"],
)
def test_streamed_audio_is_the_offline_decoding_of_its_frames(
    options: dict[str, int], server: Served, client: Client, codec: Codec
) -> None:
    text, parameters = " ".join(SENTENCES[:3]), {"seed": 5, "max_seconds": 24.0}
    segments = frames_of(server, text, **parameters)
    streamed = speak(client, text, **parameters, **options)
    assert streamed.stats.frames == num_heard(segments)
    error = difference(streamed.audio, offline(codec, segments))
    print(f"largest error against offline decoding, in full scale: {error:.1e}")
    assert error < SAME_FRAMES


@pytest.mark.parametrize(("speed", "voice"), [(0.7, VOICES[0]), (1.4, VOICES[-1])])
def test_other_voices_and_paces_are_the_same_frames_decoded_otherwise(
    speed: float, voice: str, server: Served, client: Client, codec: Codec
) -> None:
    segments = frames_of(server, SENTENCES[0], seed=5)
    streamed = speak(client, SENTENCES[0], seed=5, speed=speed, voice=voice)
    expected = offline(codec, segments, speed, VOICES.index(voice))
    assert streamed.stats.frames == num_heard(segments)
    assert len(expected) == pytest.approx(streamed.stats.frames * SPEECH.hop / speed, rel=0.003)
    assert difference(streamed.audio, expected) < SAME_FRAMES


def test_same_seed_speaks_the_same_and_another_does_not(client: Client) -> None:
    one, again, other = (
        speak(client, SENTENCES[0], seed=seed, max_seconds=SECONDS).audio for seed in (1, 1, 2)
    )
    assert difference(one, again) == 0.0
    assert difference(one, other) > SAME_FRAMES


def test_returned_seed_repeats_speech_that_asked_for_none(client: Client) -> None:
    first = speak(client, SENTENCES[1], max_seconds=SECONDS)
    again = speak(client, SENTENCES[1], max_seconds=SECONDS, seed=first.stats.seed)
    assert difference(first.audio, again.audio) == 0.0


def test_company_that_joins_and_leaves_changes_no_speech(precise: Client) -> None:
    """Each utterance alone, then among streams that begin, end and are cancelled at random moments."""
    asked = [(SENTENCES[number % len(SENTENCES)], number) for number in range(UTTERANCES)]
    alone = [speak(precise, text, seed=seed, max_seconds=SECONDS) for text, seed in asked]
    with ThreadPoolExecutor(NEIGHBOURS + 1) as pool:
        together = list(pool.map(lambda one: _in_company(precise, *one), asked))
    pairs = list(zip(alone, together, strict=True))
    differences = [difference(one.audio, other.audio) for one, other in pairs]
    diverging = [number for number, error in enumerate(differences) if error >= SAME_FRAMES]
    rounding = max((error for error in differences if error < SAME_FRAMES), default=0.0)
    print(f"diverging: {diverging}; largest difference of the others: {rounding:.1e}")
    assert not diverging
    assert all(one.words == other.words for one, other in pairs)
    eventually(lambda: precise.load().details["open_streams"], lambda streams: streams == 0)


def _in_company(client: Client, text: str, seed: int) -> Utterance:
    """The utterance; every third time, another stream beside it is left after a few chunks."""
    chance = random.Random(seed)
    if chance.random() < 1 / 3:
        with client.speak(chance.choice(SENTENCES), seed=seed, **PATIENT) as left:
            for _ in range(chance.randint(0, 3)):
                next(left)
            return hear(client.speak(text, seed=seed, **PATIENT))
    return speak(client, text, seed=seed, **PATIENT)
