"""When words begin, as served: those of the text, where the teacher would begin them, and always the same."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hearing import speak
from talkahead.text import TextFrontend
from talkahead_client import Client, Spoken
from texts import SENTENCES

from training.served_speech import join
from training.word_times import TOLD, measure

TEXT = 'Dr. Smith paid $45.50, at 10:30. "Didn\'t he?" - He did!'
WORDS = ["Dr", "Smith", "paid", "$45.50", "at", "10:30", "Didn't", "he", "He", "did"]
MEDIAN_MS, MOST_MS = 40, 200


def test_words_are_those_of_the_text(client: Client) -> None:
    heard = speak(client, TEXT, seed=3)
    words = [word for word in heard.words if word.kind is Spoken.WORD]
    assert [TEXT[word.char_start : word.char_end] for word in words] == WORDS
    assert {word.kind for word in heard.words} == {Spoken.WORD, Spoken.PAUSE}
    places = [place for word in heard.words for place in (word.char_start, word.char_end)]
    assert places == sorted(places)
    begins_s = [0.0]
    for chunk in heard.chunks:
        begins_s.append(begins_s[-1] + chunk.duration_s)
    for chunk, (begin_s, end_s) in zip(heard.chunks, pairwise(begins_s), strict=True):
        assert all(begin_s - 1e-9 <= word.start_s < end_s for word in chunk.words)


@pytest.mark.parametrize(
    "options",
    [
        {"drafter": "heads", "verifier": "match", "nodes": 8, "pin_draft": True},
        {"drafter": "draft_lm", "verifier": "match", "pin_draft": True},
        {"first_chunk_frames": 1, "chunk_frames": 3},
        {"first_chunk_frames": 250, "chunk_frames": 250},
    ],
    ids=["a tree", "a chain", "small chunks", "large chunks"],
)
def test_the_same_speech_has_the_same_times(client: Client, options: dict[str, object]) -> None:
    plain = speak(client, TEXT, seed=3, drafter="none", verifier="match")
    assert speak(client, TEXT, seed=3, **options).words == plain.words


def test_faster_speech_has_its_words_sooner(client: Client) -> None:
    usual, fast = (speak(client, TEXT, seed=3, speed=speed) for speed in (1.0, 1.25))
    scale = len(fast.audio) / len(usual.audio)
    for word, sooner in zip(usual.words, fast.words, strict=True):
        assert sooner.start_s == pytest.approx(scale * word.start_s, abs=2e-3)


def test_words_begin_where_the_teacher_begins_them(client: Client) -> None:
    errors: list[float] = []
    for text in SENTENCES[:3]:
        (segment,) = TextFrontend().segments(text)
        row = measure(text, segment, join(speak(client, text, seed=3).chunks))
        assert len(row.errors_ms[TOLD]) == len(text.split())
        errors += map(abs, row.errors_ms[TOLD])
    print(f"errors in ms: {sorted(errors)}")
    assert sorted(errors)[len(errors) // 2] <= MEDIAN_MS and max(errors) <= MOST_MS
