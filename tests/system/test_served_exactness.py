"""Rung (b) of exactness, as served: streamed audio against offline decoding, and company against solitude."""

from __future__ import annotations

import math
import random
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from hearing import SAME_FRAMES, Audio, difference, hear, speak
from pipeline import Frames, frames_of
from served import REPOSITORY, Served
from talkahead.audio.codec import Codec
from talkahead_client import Client
from texts import SENTENCES
from waiting import eventually

SECONDS = 2.0
UTTERANCES = 64
NEIGHBOURS = 15
DIVERGING_SHARE = 0.1
"""Upper bound of the share of utterances whose audio may depend on company, at 95 % confidence."""


@pytest.fixture(scope="module")
def codec() -> Codec:
    return Codec.load(REPOSITORY / "vocoder" / "1")


def offline(codec: Codec, segments: list[Frames]) -> Audio:
    """Each segment's frames decoded whole, one after another."""
    with torch.inference_mode():
        decoded = [codec.decode(torch.from_numpy(codes)[None])[0] for codes in segments]
    return torch.cat(decoded).clamp(-1.0, 1.0).numpy()


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
    assert streamed.stats.frames == sum(map(len, segments))
    error = difference(streamed.audio, offline(codec, segments))
    print(f"largest error against offline decoding, in full scale: {error:.1e}")
    assert error < SAME_FRAMES


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


def test_company_that_joins_and_leaves_changes_no_speech(client: Client) -> None:
    """Each utterance alone, then among streams that begin, end and are cancelled at random moments."""
    asked = [(SENTENCES[number % len(SENTENCES)], number) for number in range(UTTERANCES)]
    alone = [speak(client, text, seed=seed, max_seconds=SECONDS).audio for text, seed in asked]
    with ThreadPoolExecutor(NEIGHBOURS + 1) as pool:
        together = list(pool.map(lambda one: _in_company(client, *one), asked))
    differences = [difference(one, other) for one, other in zip(alone, together, strict=True)]
    diverging = sum(error >= SAME_FRAMES for error in differences)
    low, high = wilson_interval(diverging, UTTERANCES)
    rounding = max((error for error in differences if error < SAME_FRAMES), default=0.0)
    print(f"diverging: {diverging} of {UTTERANCES} utterances (95 %: {low:.1%} to {high:.1%}); "
          f"largest difference of the others: {rounding:.1e}")  # fmt: skip
    assert high < DIVERGING_SHARE
    eventually(lambda: client.load().details["open_streams"], lambda streams: streams == 0)


def _in_company(client: Client, text: str, seed: int) -> Audio:
    """The utterance; every third time, another stream beside it is left after a few chunks."""
    chance = random.Random(seed)
    if chance.random() < 1 / 3:
        with client.speak(chance.choice(SENTENCES), seed=seed, max_seconds=SECONDS) as left:
            for _ in range(chance.randint(0, 3)):
                next(left)
            return hear(client.speak(text, seed=seed, max_seconds=SECONDS)).audio
    return speak(client, text, seed=seed, max_seconds=SECONDS).audio


def wilson_interval(count: int, total: int, z: float = 1.96) -> tuple[float, float]:
    """The 95 % interval of a share, which is honest at 0 as well."""
    share = count / total
    centre = (share + z * z / (2 * total)) / (1 + z * z / total)
    half = z * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total)) / (1 + z * z / total)
    return max(centre - half, 0.0), min(centre + half, 1.0)
