"""How far somebody has heard who plays speech as it arrives."""

from __future__ import annotations

import numpy as np
import pytest
from talkahead_client import AudioChunk, Spoken, Stats, Word
from talkahead_gateway.playing import Heard, Playing

RATE_HZ = 1_000


def chunk(seconds: float, *words: tuple[int, int, float]) -> AudioChunk:
    audio = np.zeros(round(seconds * RATE_HZ), np.float32)
    begun = tuple(Word(start, end, start_s, Spoken.WORD) for start, end, start_s in words)
    return AudioChunk(audio, 0, RATE_HZ, False, Stats(*[0] * 12), 0.0, begun)


@pytest.fixture
def playing() -> Playing:
    """From second 10: "One two." for a second, a pause of 0.2, "Three four." for one more, though all had
    come by second 10.3."""
    playing = Playing()
    playing.begin("One two. ")
    playing.play(chunk(0.5, (0, 3, 0.0)), 0.0, 0.0, 10.0)
    playing.play(chunk(0.5, (4, 7, 0.6)), 0.5, 0.0, 10.1)
    playing.begin(" Three four.")
    playing.play(chunk(1.0, (0, 5, 0.1), (6, 10, 0.5)), 0.0, 0.2, 10.3)
    return playing


@pytest.mark.parametrize(
    ("now_s", "text", "word", "audio_s"),
    [
        (10.0, "One", "One", 0.0),
        (10.59, "One", "One", 0.59),
        (10.61, "One two", "two", 0.61),
        (11.25, "One two", "two", 1.25),
        (11.31, "One two.  Three", "Three", 1.31),
        (99.0, "One two.  Three four", "four", 2.2),
    ],
)
def test_the_word_that_is_being_said(
    playing: Playing, now_s: float, text: str, word: str, audio_s: float
) -> None:
    heard = playing.heard(now_s)
    assert (heard.text, heard.word) == (text, word)
    assert heard.audio_s == pytest.approx(audio_s)


def test_who_has_run_dry_hears_what_comes_when_it_comes(playing: Playing) -> None:
    playing.begin(" Five.")
    playing.play(chunk(0.5, (0, 4, 0.0)), 0.0, 0.0, 20.0)
    assert playing.heard(19.9).word == "four" and playing.heard(20.0).word == "Five"
    assert playing.waited_s(20.4) == pytest.approx(-0.1)


def test_nothing_has_been_heard_before_it_begins() -> None:
    playing = Playing()
    playing.begin("One.")
    assert not playing.has_begun and playing.heard(5.0) == Heard("", "", 0.0)
