"""What counts as a promise kept when a replica is lost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perf.replicas import Loss

KEPT = Loss(
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


@pytest.mark.parametrize(
    "broken",
    [
        {"failed": 1},
        {"cut": 7},
        {"cut_within_s": 2.5},
        {"silent_whole": 3},
        {"shares": (0, 100)},
        {"outages": ["first", "second"]},
    ],
    ids=str,
)
def test_anything_else_is_a_promise_broken(broken: dict[str, object]) -> None:
    assert not replace(KEPT, **broken).is_as_promised  # type: ignore[arg-type]
