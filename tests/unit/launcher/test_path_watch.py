"""When a syllable is asked for, and when a server is sick, by a clock set by hand."""

from __future__ import annotations

import pytest
from talkahead.launcher.path_watch import PathWatch


class Watched:
    def __init__(self, interval_s: float = 60.0) -> None:
        self.now = 100.0
        self.asked = 0
        self.errors = 0
        self.watch = PathWatch(self._say, interval_s, lambda: self.now)

    def _say(self) -> None:
        self.asked += 1

    def look(self, after_s: float = 0.0) -> float | None:
        self.now += after_s
        return self.watch.look(self.errors)


def test_a_quiet_server_is_asked_now_and_then() -> None:
    watched = Watched()
    assert watched.look() == 60 and watched.asked == 0
    assert watched.look(59) == pytest.approx(1) and watched.asked == 0
    assert watched.look(1) is None and watched.asked == 1
    assert watched.look(300) is None and watched.asked == 1  # it has not answered yet
    assert not watched.watch.is_sick("")
    assert watched.look(2) == 58 and watched.asked == 1


def test_without_an_interval_only_a_complaint_is_a_reason() -> None:
    watched = Watched(interval_s=0)
    assert watched.look(1e6) is None and watched.asked == 0
    watched.errors += 1
    assert watched.look() is None and watched.asked == 1
    watched.watch.is_sick("")
    assert watched.look(1e6) is None and watched.asked == 1


def test_many_complaints_are_one_reason_at_a_time() -> None:
    watched = Watched(interval_s=0)
    watched.look(5)
    for _ in range(50):
        watched.errors += 1
        watched.look(0.001)
    assert watched.asked == 1
    watched.watch.is_sick("")
    assert watched.look() == pytest.approx(1) and watched.asked == 1  # those that came meanwhile
    watched.look(1)
    assert watched.asked == 2


def test_only_the_second_failure_in_a_row_decides() -> None:
    watched = Watched()
    for failures in (
        ["held up", ""],
        ["held up", "RESOURCE_EXHAUSTED: 64 streams wait"],
        ["held up", "INVALID_ARGUMENT: VOICE"],
    ):
        assert not any(watched.watch.is_sick(failure) for failure in failures)
    assert not watched.watch.is_sick("held up")
    before = watched.asked
    assert watched.look() is None and watched.asked == before + 1  # at once
    assert watched.watch.is_sick("held up")


def test_a_full_server_is_well() -> None:
    watched = Watched()
    full = "in ensemble 'tts', RESOURCE_EXHAUSTED: 64 streams wait for a slot already"
    assert not any(watched.watch.is_sick(full) for _ in range(5))
