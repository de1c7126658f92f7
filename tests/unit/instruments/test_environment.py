"""A report says how much of the machine's time its host gave to others while it was measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from instruments import environment, report
from instruments.environment import CpuTime, Environment

BEFORE = "cpu  100 10 50 9000 7 1 2 30 0 0\ncpu0 50 5 25 4500 3 0 1 15 0 0\n"
AFTER = "cpu  160 10 80 9500 7 1 2 60 5 0\ncpu0 80 5 40 4750 3 0 1 30 0 0\n"


@pytest.mark.parametrize("after, percent", [(AFTER, 25.0), (BEFORE, None)])
def test_what_was_stolen_is_counted_from_the_record_to_the_report(
    after: str, percent: float | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stat = tmp_path / "stat"
    monkeypatch.setattr(environment, "_PROC_STAT", stat)
    stat.write_text(BEFORE)
    begun = Environment.record(None)
    stat.write_text(after)
    report.save(tmp_path / "out.json", "toy", begun, {}, [])
    told = json.loads((tmp_path / "out.json").read_text())["environment"]
    assert told["stolen_percent"] == percent and "began" not in told and told["cpu"] == begun.cpu


def test_a_system_that_does_not_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "_PROC_STAT", tmp_path / "nothing")
    assert CpuTime.now() == CpuTime()
