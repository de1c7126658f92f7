from __future__ import annotations

from talkahead_client import Spoken, Word
from talkahead_gateway.alignment import Alignment


def test_words_and_marks_begin_where_the_server_says() -> None:
    words = [
        Word(0, 2, 0.0, Spoken.WORD),
        Word(2, 3, 0.3, Spoken.PAUSE),
        Word(4, 6, 0.6, Spoken.WORD),
        Word(6, 6, 0.8, Spoken.PAUSE),
    ]
    assert Alignment.of(" Hi, no", words, 0.1, 0.9).times() == {
        "chars": [" ", "H", "i", ",", " ", "n", "o", " "],
        "charStartTimesMs": [100, 100, 250, 400, 550, 700, 850, 1000],
        "charDurationsMs": [0, 150, 150, 150, 150, 150, 150, 0],
    }


def test_characters_share_a_segment_of_which_no_more_is_known() -> None:
    assert Alignment.of("Hi \n", [Word(0, 2, 0.0, Spoken.SEGMENT)], 0.1, 0.4).times() == {
        "chars": ["H", "i", " ", " "],
        "charStartTimesMs": [100, 200, 300, 400],
        "charDurationsMs": [100, 100, 100, 100],
    }


def test_there_is_a_space_at_the_end() -> None:
    """In which Pipecat sees the end of the last word."""
    aligned = Alignment.of("Hey", [], 0.0, 0.1).times()
    assert aligned["chars"] == ["H", "e", "y", " "]
    assert aligned["charStartTimesMs"] == [0, 33, 67, 100] and aligned["charDurationsMs"] == [33, 34, 33, 0]


def test_a_later_clause_has_later_times() -> None:
    later = Alignment.of("Hey", [], 0.1, 0.1).times(since_s=2.0)
    assert later["charStartTimesMs"] == [2100, 2133, 2167, 2200]
    assert later["charDurationsMs"] == [33, 34, 33, 0]
