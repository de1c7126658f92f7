"""Captions: every character of the text once, in lines that a viewer can read, at the time of its words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from talkahead_client import AudioChunk, Spoken, Stats, Word
from talkahead_client.captions import MAX_CHARACTERS, Captions

RATE_HZ = 1_000
STATS = Stats(*[0] * 12)


def written(tmp_path: Path, text: str, words: list[Word], suffix: str = ".vtt", seconds: float = 9.0) -> str:
    captions = Captions(text)
    for index, place in enumerate(range(0, max(len(words), 1), 3)):
        audio = np.zeros(round(seconds * RATE_HZ) if place == 0 else 0, np.float32)
        captions.add(AudioChunk(audio, index, RATE_HZ, False, STATS, 0.0, tuple(words[place : place + 3])))
    path = tmp_path / f"out{suffix}"
    captions.write(path)
    return path.read_text(encoding="utf-8")


def words_of(text: str, *places: tuple[str, float], kind: Spoken = Spoken.WORD) -> list[Word]:
    """Each of them after the one before."""
    found, end = [], 0
    for word, start_s in places:
        start = text.index(word, end)
        end = start + len(word)
        found.append(Word(start, end, start_s, Spoken.PAUSE if word in ",.!?" else kind))
    return found


def test_web_vtt_has_the_moment_of_every_word(tmp_path: Path) -> None:
    text = 'She said: "Yes & no!"  Then\nnothing'
    words = words_of(text, ("She", 0.0), ("said", 0.2004), ("Yes", 0.75), ("no", 1.5), ("!", 1.8),
                     ("Then", 62.0), ("nothing", 3600.5))  # fmt: skip
    assert written(tmp_path, text, words, seconds=3601.25) == (
        "WEBVTT\n\n"
        "00:00:00.000 --> 00:01:02.000\n"
        'She <00:00:00.200>said: <00:00:00.750>"Yes &amp; <00:00:01.500>no!"\n\n'
        "00:01:02.000 --> 01:00:01.250\n"
        "Then <01:00:00.500>nothing\n"
    )


def test_sub_rip_counts_captions(tmp_path: Path) -> None:
    text = "Well—indeed. (So what?)"
    words = words_of(text, ("Well", 0.1), ("indeed", 0.5), (".", 1.0), ("So", 1.5), ("what", 2.0))
    assert written(tmp_path, text, words, ".srt", 2.5) == (
        "1\n00:00:00,100 --> 00:00:01,500\nWell—indeed.\n\n2\n00:00:01,500 --> 00:00:02,500\n(So what?)\n"
    )


@pytest.mark.parametrize("pause", ["", ","])
def test_captions_are_lines_of_whole_words(tmp_path: Path, pause: str) -> None:
    one_by_one = [f"word{number}" for number in range(30)]
    text = f"{pause} ".join(one_by_one)
    places = [(word, float(place)) for place, one in enumerate(one_by_one) for word in (one, pause) if word]
    words = words_of(text, *(places[:-1] if pause else places))
    lines = written(tmp_path, text, words, ".srt", 30.0).split("\n")[2::4]
    assert all(len(line) <= MAX_CHARACTERS for line in lines) and " ".join(lines) == text
    assert len(lines) == (10 if pause else 5)


def test_a_full_stop_without_a_pause_ends_nothing(tmp_path: Path) -> None:
    text = "Ask Dr. Smith. He knows."
    words = words_of(text, ("Ask", 0.0), ("Dr", 0.3), ("Smith", 0.6), (".", 1.0), ("He", 1.3), ("knows", 1.5))
    assert written(tmp_path, text, words, ".srt").split("\n")[2::4] == ["Ask Dr. Smith.", "He knows."]


def test_a_segment_is_one_caption(tmp_path: Path) -> None:
    first, second = "It is long, and longer than a line of a television. ", "It ends."
    text = first + second
    words = [Word(0, len(first) - 1, 0.0, Spoken.SEGMENT), Word(len(first), len(text), 4.0, Spoken.SEGMENT)]
    assert written(tmp_path, text, words, ".srt").split("\n")[2::4] == [first.strip(), second]


def test_of_no_words_there_are_no_captions(tmp_path: Path) -> None:
    assert written(tmp_path, "Hello.", []) == "WEBVTT\n"
