"""How far somebody has heard who plays speech as it arrives."""

from __future__ import annotations

import pytest
from talkahead_client import Spoken, Word
from talkahead_gateway import playback
from talkahead_gateway.heard_text import Heard, HeardText
from talkahead_gateway.playback import Playback


class Clock:
    now_s = 10.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(playback, "time", clock)
    return clock


def word(start: int, end: int, start_s: float, kind: Spoken = Spoken.WORD) -> Word:
    return Word(start, end, start_s, kind)


@pytest.mark.parametrize(
    ("moment_s", "text", "last"),
    [
        (9.9, "", ""),
        (10.0, "One", "One"),
        (10.59, "One", "One"),
        (10.61, "One two", "two"),
        (11.29, "One two", "two"),
        (11.31, "One two.  Three", "Three"),
        (99.0, "One two.  Three four", "four"),
    ],
)
def test_the_word_that_is_being_said(moment_s: float, text: str, last: str) -> None:
    heard = HeardText()
    heard.begin("One two. ")
    heard.add([word(0, 3, 0.0)], 10.0)
    heard.add([word(4, 7, 0.6), word(7, 8, 0.9, Spoken.PAUSE)], 10.0)
    heard.begin(" Three four.")
    heard.add([word(0, 5, 0.1), word(6, 10, 0.5)], 11.2)
    assert heard.at(moment_s) == Heard(text, last)


def test_what_comes_early_is_heard_later_and_what_comes_late_at_once(clock: Clock) -> None:
    listener = Playback()
    assert not listener.has_begun and listener.heard_s == 0.0
    assert listener.play(0.5) == 10.0
    clock.now_s = 10.2
    assert listener.play(0.5) == 10.5
    assert (listener.left_s, listener.heard_s) == pytest.approx((0.8, 0.2))
    clock.now_s = 20.0
    assert (listener.left_s, listener.heard_s) == (0.0, 1.0)
    assert listener.play(0.5) == 20.0


def test_a_pause_lasts_from_when_the_clause_was_heard(clock: Clock) -> None:
    listener = Playback()
    listener.pause_after("Before anything.")
    assert listener.silence_s() == 0.0
    listener.play(1.0)
    listener.pause_after("A sentence.")
    whole_s = listener.silence_s()
    clock.now_s = 11.0 + whole_s / 2
    assert 0.0 < listener.silence_s() == pytest.approx(whole_s / 2)
    clock.now_s = 20.0
    assert listener.silence_s() == 0.0
