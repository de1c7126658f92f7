"""What counts as a promise kept when a replica is lost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from instruments.report import Spread
from perf.replicas.crowd import Ending, Heard
from perf.replicas.lost import Loss, unheard
from perf.replicas.rolled import Rolled, Turn
from perf.replicas.sick import Blow, Sickness

KEPT = Loss(
    how="killed",
    streams=200,
    whole=195,
    cut=5,
    failed=0,
    open_there=6,
    cut_within_s=0.1,
    silent=4,
    silent_whole=4,
    returned_s=20.0,
    shares=(52, 48),
    outages=["Server replicas/first is DOWN, ..."],
    heard=[],
)


def test_only_who_spoke_on_the_dead_replica_may_be_cut() -> None:
    assert KEPT.is_as_promised
    assert KEPT.row()["cut"] == "5 of 6 open there"
    assert replace(KEPT, cut_within_s=2.2, how="unplugged").is_as_promised


@pytest.mark.parametrize(
    "broken",
    [
        {"failed": 1},
        {"cut": 7},
        {"cut_within_s": 2.2},
        {"cut_within_s": 2.6, "how": "unplugged"},
        {"silent_whole": 3},
        {"shares": (0, 100)},
        {"outages": ["first", "second"]},
    ],
    ids=str,
)
def test_anything_else_is_a_promise_broken(broken: dict[str, object]) -> None:
    assert not replace(KEPT, **broken).is_as_promised  # type: ignore[arg-type]


def test_who_hears_what_was_underway_at_the_loss_had_been_spoken_to() -> None:
    """Lost at 10.00, told at 10.05."""
    early, underway, later = (Heard(9.0, spoke_s, 10.05, Ending.CUT) for spoke_s in (9.5, 10.02, 10.2))
    elsewhere = Heard(9.9, 10.3, 12.0, Ending.WHOLE)
    afterwards = Heard(10.1, 10.3, 12.0, Ending.WHOLE)
    assert unheard([early, underway, later, elsewhere, afterwards], 10.0) == [later, elsewhere]
    assert unheard([elsewhere, afterwards], 10.0) == [elsewhere]


NONE = Spread.of([])
ROLLED = Rolled(
    streams=300,
    whole=300,
    turns=[Turn(8, 5.5, 30.0), Turn(7, 5.8, 29.0)],
    away_first_chunk_s=NONE,
    first_chunk_s=NONE,
    heard=[],
)
SICKNESS = Sickness(
    model="talker",
    blow=Blow.PAUSED,
    known_s=3.0,
    unready_s=4.0,
    healed_s=40.0,
    streams=60,
    struck=8,
    lost=0,
    given_again=3,
    heard=[],
)


def test_a_rolling_restart_under_load_fails_nobody() -> None:
    assert ROLLED.is_as_promised
    assert not replace(ROLLED, whole=299).is_as_promised
    # Otherwise it was not under load.
    assert not replace(ROLLED, turns=[Turn(8, 1.0, 9.0), Turn(0, 1.0, 9.0)]).is_as_promised


@pytest.mark.parametrize(
    "broken", [{"known_s": 5.5}, {"unready_s": 6.0}, {"lost": 1}, {"given_again": 0}], ids=str
)
def test_a_sick_replica_is_known_and_gets_streams_again_when_it_is_well(broken: dict[str, object]) -> None:
    assert SICKNESS.is_as_promised
    assert not replace(SICKNESS, **broken).is_as_promised  # type: ignore[arg-type]
