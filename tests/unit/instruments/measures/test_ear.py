"""The recogniser hears a clear sentence at any rate and of any length, and a drowned one badly."""

from __future__ import annotations

import numpy as np
import pytest
from taught import CLEAR, NUMBERS, noisy, said

from instruments.measures.ear import RATE_HZ, Ear, cut
from instruments.measures.word_errors import words_of
from instruments.recording import Recording


@pytest.fixture(scope="module")
def ear() -> Ear:
    return Ear()


def test_a_clear_sentence_is_heard_and_a_drowned_one_is_not(ear: Ear) -> None:
    clear, numbers = said(CLEAR), said(NUMBERS)
    drowned = noisy(clear, 3.0)
    found = ear.errors([CLEAR, NUMBERS, CLEAR], [clear, numbers, drowned])
    assert [one.edits for one in found[:2]] == [0, 0]
    assert found[2].edits > 5


def test_a_text_surprises_where_it_is_drowned_or_another(ear: Ear) -> None:
    clear = said(CLEAR)
    assert 0 <= 5 * ear.surprise(CLEAR, clear) < ear.surprise(CLEAR, noisy(clear, 3.0))
    assert 5 * ear.surprise(CLEAR, clear) < ear.surprise(NUMBERS, clear)
    long = Recording(np.tile(clear.samples, 20), clear.rate_hz)
    with pytest.raises(ValueError, match="allowed: 30 s"):
        ear.surprise(CLEAR, long)


def test_another_rate_is_heard_alike(ear: Ear) -> None:
    recording = said(CLEAR)
    faster = Recording(recording.at(48_000), 48_000)
    assert words_of(ear.hear(faster)) == words_of(CLEAR)


def test_what_is_longer_than_a_window_is_heard_to_its_end(ear: Ear) -> None:
    clear, numbers = said(CLEAR), said(NUMBERS)
    pause = np.zeros(clear.rate_hz * 4 // 5, dtype=np.float32)
    times = 6
    long = Recording(
        np.tile(np.concatenate([clear.samples, pause, numbers.samples, pause]), times), clear.rate_hz
    )
    assert long.seconds > 30
    words = ear.hear(long).split()
    assert words.count("train") == words.count("extension") == times


def test_pieces_are_cut_where_it_is_quiet() -> None:
    samples = np.ones(70 * RATE_HZ, dtype=np.float32)
    samples[25 * RATE_HZ : 25 * RATE_HZ + RATE_HZ // 5] = 0
    first, *others = cut(samples)
    assert 25 <= len(first) / RATE_HZ <= 25.2
    assert all(len(piece) <= 30 * RATE_HZ for piece in others)
    assert np.array_equal(np.concatenate([first, *others]), samples)


def test_words_are_heard_when_they_are_said(ear: Ear) -> None:
    recording = said(CLEAR)
    pause_s = 31
    pause = np.zeros(pause_s * recording.rate_hz, np.float32)
    twice = np.concatenate([recording.samples, pause, recording.samples])
    found = ear.follow(Recording(twice, recording.rate_hz))
    first, second = (word for word in found if word.word == "train")
    assert 0.8 < first.middle_s < 1.3 < recording.seconds
    assert second.middle_s - first.middle_s == pytest.approx(recording.seconds + pause_s, abs=0.3)
    assert [word.word for word in found[:12]] == CLEAR.replace(",", "").rstrip(".").split()
