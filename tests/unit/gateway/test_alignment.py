from __future__ import annotations

from talkahead_gateway.alignment import spread_alignment


def test_characters_share_the_speech_after_the_silence() -> None:
    assert spread_alignment("Hi \n", 0.1, 0.4) == {
        "chars": ["H", "i", " ", " "],
        "charStartTimesMs": [100, 200, 300, 400],
        "charDurationsMs": [100, 100, 100, 100],
    }


def test_there_is_a_space_at_the_end() -> None:
    """In which Pipecat sees the end of the last word."""
    aligned = spread_alignment("Hey", 0.0, 0.1)
    assert aligned["chars"] == ["H", "e", "y", " "]
    assert aligned["charStartTimesMs"] == [0, 33, 67, 100] and aligned["charDurationsMs"] == [33, 34, 33, 0]
