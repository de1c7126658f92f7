"""Long texts: spoken to their end, begun as soon as short ones, and in nobody's way."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

import pytest
from hearing import hear
from served import Served
from talkahead.text import TextFrontend
from talkahead_client import Client, StopReason
from texts import SENTENCES, prose
from waiting import eventually

ROUNDS = 5
GENEROUS_RATIO = 2.0
GENEROUS_S = 0.1
ENCODED = "talkahead_encoder_seconds_count"
"""A first chunk is late only beyond both of these, so that a busy machine fails nobody."""


LONG = prose(5_000)


@pytest.fixture
def first_segment() -> str:
    """What the long text begins with, as a text of its own."""
    segment = next(TextFrontend().iter_segments(LONG))
    return LONG[segment.char_start : segment.char_end]


def first_chunk_s(client: Client, text: str) -> float:
    with client.speak(text, seed=1) as speech:
        return next(speech).elapsed_s


@pytest.mark.slow
def test_five_thousand_characters_are_spoken_to_the_end(client: Client) -> None:
    utterance = hear(client.speak(LONG, seed=1))
    ends = [chunk.stats.char_end for chunk in utterance.chunks]
    assert len(LONG) == 5_000
    assert ends == sorted(ends)
    assert ends[-1] == len(LONG)
    segment_ends = {segment.char_end for segment in TextFrontend().segments(LONG)}
    assert set(ends) - {0} == segment_ends
    assert StopReason(utterance.stats.stop_reason) in (StopReason.END_OF_SPEECH, StopReason.LENGTH)


def test_long_text_begins_as_soon_as_its_first_segment_alone(client: Client, first_segment: str) -> None:
    times = [(first_chunk_s(client, LONG), first_chunk_s(client, first_segment)) for _ in range(ROUNDS)]
    long_s, short_s = (median(column) for column in zip(*times, strict=True))
    print(f"first chunk: {1e3 * long_s:.0f} ms of a long text, {1e3 * short_s:.0f} ms of its first segment")
    assert long_s < GENEROUS_RATIO * short_s + GENEROUS_S


def test_long_text_does_not_hold_up_a_short_one(client: Client) -> None:
    """While thousands of characters are on their way through the models, somebody else begins to speak."""
    alone_s = median(first_chunk_s(client, SENTENCES[0]) for _ in range(ROUNDS))
    beside_s = max(_beside(client, prose(20_000)))
    print(f"first chunk: {1e3 * alone_s:.0f} ms alone, {1e3 * beside_s:.0f} ms at most beside a long text")
    assert beside_s < 2 * GENEROUS_RATIO * alone_s + 2 * GENEROUS_S


def test_long_text_that_is_left_is_not_encoded_to_its_end(server: Served, client: Client) -> None:
    """The frontend sends a few segments ahead, and stops when the talker is done with the stream."""
    text, before = prose(20_000), server.metric(ENCODED)
    with client.speak(text, seed=1) as speech:
        next(speech)
    eventually(lambda: client.load().details["open_streams"], lambda streams: streams == 0)
    batches = eventually(lambda: server.metric(ENCODED) - before, lambda count: count > 0)
    print(f"batches encoded of a text of {len(TextFrontend().segments(text))} segments: {batches:.0f}")
    assert batches < len(TextFrontend().segments(text)) / 10


def _beside(client: Client, long: str) -> Iterator[float]:
    with client.speak(long, seed=1) as speech:
        next(speech)
        for _ in range(ROUNDS):
            yield first_chunk_s(client, SENTENCES[0])
