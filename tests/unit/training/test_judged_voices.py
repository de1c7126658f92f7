"""Voices are told apart by what they say in other words."""

from __future__ import annotations

import pytest
from taught import CLEAR, NUMBERS, said

from training.voices import told_apart, ways


def test_every_voice_speaks_and_the_first_one_at_every_speed() -> None:
    asked = ways(["heart", "alto"], [0.7, 1.4])
    assert list(asked) == ["heart", "alto", "heart x 0.7", "heart x 1.4"]
    assert [(one.voice, one.speed) for one in asked.values()] == [
        ("heart", 1.0),
        ("alto", 1.0),
        ("heart", 0.7),
        ("heart", 1.4),
    ]


@pytest.mark.slow
def test_each_is_nearest_to_its_own_voice_unless_both_are_one() -> None:
    by_voice = {voice: [said(text, voice) for text in (CLEAR, NUMBERS)] for voice in ("heart", "deep")}
    for told in told_apart(by_voice):
        assert told.right_percent == 100.0 and told.own > told.next_best + 0.2
    twins = {"heart": by_voice["heart"], "same": by_voice["heart"]}
    assert all(told.own == pytest.approx(told.next_best) for told in told_apart(twins))
