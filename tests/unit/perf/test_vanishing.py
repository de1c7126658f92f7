"""What is made of the memory that rounds of leaving listeners left."""

from __future__ import annotations

import pytest

from perf.vanishing import Growth, Leaving, Round


def grown(leaving: Leaving, server: int, talker: int, vocoder: int) -> Round:
    return Round(leaving, 10, {"tritonserver": server, "talker": talker, "vocoder": vocoder})


def test_growth_is_that_of_all_rounds_of_one_kind_in_what_holds_streams() -> None:
    rounds = [
        grown(Leaving.POLITE, 999, 999, 999),
        grown(Leaving.VANISHED, 900, 30, 0),
        grown(Leaving.VANISHED, 0, 20, 5_100_000),
        grown(Leaving.VANISHED, -600, 40, -5_100_000),
    ]
    growth = Growth.of(Leaving.VANISHED, rounds)
    assert (growth.clients, growth.rounds) == (30, rounds[1:])
    assert growth.by_process == pytest.approx({"tritonserver": 10.0, "talker": 3.0, "vocoder": 0.0})
    assert growth.bytes_per_client == pytest.approx(13.0)
    assert growth.row()["clients"] == "30 vanished"
