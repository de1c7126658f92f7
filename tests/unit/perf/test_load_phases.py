"""A load in phases: each answer belongs to the phase in which it was meant to be asked for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fake_triton import FakeTriton, speaks

from perf import overload
from perf.arrivals import Length, Spacing
from perf.open_loop import Answers, OpenLoad
from perf.utterance import Utterance

LOAD = OpenLoad(rate=4.0, seconds=10.0, spacing=Spacing.POISSON, length=Length.SHORT)


def asked(at_s: float, late_ms: float) -> tuple[Utterance, float]:
    return Utterance(0, 0, at_s + late_ms / 1e3, None, None, "gone", (), ()), late_ms


def test_phases_follow_each_other() -> None:
    parts = overload.phases(LOAD, times=3.0)
    assert [one.load.rate for one in parts] == [4.0, 12.0, 4.0, 4.0]
    ends = [one.began_s + one.load.seconds for one in parts]
    assert [one.began_s for one in parts] == [0.0, *ends[:-1]]
    for one in parts:
        times = [arrival.at_s for arrival in one.arrivals(part=0)]
        assert times == sorted(times) and len(times) == round(one.load.rate * one.load.seconds)
        assert one.began_s <= times[0] and times[-1] < one.began_s + one.load.seconds


def test_an_answer_that_was_asked_for_late_belongs_where_it_was_meant() -> None:
    _, crowd, after, _ = overload.phases(LOAD, times=3.0)
    ends_s = crowd.began_s + crowd.load.seconds
    answers = [asked(ends_s - 0.01, late_ms=500.0), asked(ends_s, late_ms=0.0)]
    whole = Answers(99.0, [one for one, _ in answers], [late for _, late in answers], 0.1)
    assert crowd.of(whole).utterances == whole.utterances[:1]
    assert after.of(whole).utterances == whole.utterances[1:]
    assert crowd.of(whole).wall_s == crowd.load.seconds


def test_the_command_tells_each_phase_of_both_rounds(
    triton: FakeTriton, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(overload, "_CALM_S", 0.1)
    monkeypatch.setattr(overload, "RECOVERY_S", 0.1)
    triton.script = speaks(1)
    out = tmp_path / "overload.json"
    server = ["--server", triton.address, "--rate", "20", "--times", "2", "--seconds", "0.2"]
    assert overload.main([*server, "--out", str(out)]) == 0
    told = json.loads(out.read_text(encoding="utf-8"))["results"]
    assert [one["asked"] for one in told] == [one["spoken"] for one in told] == [4, 16, 4, 4]
    assert capsys.readouterr().out.count("memory: unknown") == 2


@pytest.mark.parametrize("name", ["rate", "times", "seconds"])
def test_what_is_no_load_is_refused(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        overload.main([f"--{name}", "0"])
    assert f"--{name}: 0; more than 0 is allowed" in capsys.readouterr().err
