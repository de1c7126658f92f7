"""Requests that wait for nobody, against a scripted Triton."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import grpc
import pytest
from fake_triton import FakeStream, FakeTriton, speaks
from talkahead.config import parameters_of

from instruments.server import Server
from perf import load as command
from perf import open_loop
from perf.arrivals import Length, Spacing, arrivals
from perf.level import Level, Limit, rows
from perf.open_loop import Answers, OpenLoad
from perf.turns import Configuration
from perf.utterance import Utterance

LOAD = OpenLoad(rate=100.0, seconds=0.04, spacing=Spacing.EVEN, length=Length.SHORT)
LIMIT = Limit(first_chunk_ms=1e6, dry_share=0.0)


def heard(*chunks: tuple[float, float]) -> Utterance:
    """Chunks by arrival and length, in milliseconds."""
    return Utterance(0, 0, 0.0, None, None, None, *zip(*chunks, strict=True))


def test_arrivals_come_again_and_are_spaced_as_asked() -> None:
    even = arrivals(8.0, 5.0, Spacing.EVEN, num_texts=3, num_seeds=2, part=0)
    assert [later.at_s - one.at_s for one, later in pairwise(even)] == pytest.approx([0.125] * 39)
    random = arrivals(8.0, 500.0, Spacing.POISSON, num_texts=3, num_seeds=2, part=0)
    assert random == arrivals(8.0, 500.0, Spacing.POISSON, num_texts=3, num_seeds=2, part=0)
    assert random != arrivals(8.0, 500.0, Spacing.POISSON, num_texts=3, num_seeds=2, part=1)
    gaps = [later.at_s - one.at_s for one, later in pairwise(random)]
    # Of exponential gaps 1 / e are longer than their mean; of 3,999 five standard errors are 0.038.
    assert len(random) == 4_000 and min(gaps) >= 0
    assert sum(gap > 0.125 for gap in gaps) / len(gaps) == pytest.approx(0.3679, abs=0.038)
    assert {one.text for one in random} == {0, 1, 2} and {one.seed for one in random} == {0, 1}


def test_mixed_texts_are_of_all_lengths_alike() -> None:
    parts = [set(length.texts) for length in (Length.SHORT, Length.MEDIUM, Length.LONG)]
    counts = [sum(text in part for text in Length.MIXED.texts) for part in parts]
    assert len(set(counts)) == 1 and counts[0] > 0


def test_a_request_waits_for_none_before_it(triton: FakeTriton) -> None:
    all_there = threading.Barrier(4)

    def together(stream: FakeStream) -> Iterator[object]:
        all_there.wait(10.0)
        return speaks(2)(stream)

    triton.script = together
    found = open_loop.run(triton.address, LOAD, {"drafter": "none"}, part=0)
    assert [one.error for one in found.utterances] == [None] * 4
    assert [len(one.arrivals_ms) for one in found.utterances] == [2] * 4
    assert len(found.late_ms) == 4 and min(found.late_ms) >= 0
    sent = [stream.request.parameters for stream in triton.streams]
    assert {one["drafter"].string_param for one in sent} == {"none"} and all("seed" in one for one in sent)


def test_refusals_are_told_apart_from_failures(triton: FakeTriton) -> None:
    codes = iter([grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.INTERNAL, None, None])

    def script(stream: FakeStream) -> Iterator[object]:
        code = next(codes)
        if code is None:
            return speaks(1)(stream)
        stream.fail(code, "because")
        return iter(())

    triton.script = script
    found = open_loop.run(triton.address, LOAD, {}, part=0)
    level = Level.of("it", LOAD, LIMIT, [found], {})
    assert (level.asked, level.spoken, level.refused, level.failed) == (4, 2, 1, 1)
    assert level.goodput_per_s == pytest.approx(2 / LOAD.seconds) and not level.is_held


def test_a_player_that_waits_hears_fewer_gaps() -> None:
    spoken = heard((50.0, 100.0), (200.0, 100.0), (500.0, 100.0))
    assert spoken.stalled_ms(0.0) == pytest.approx(50.0 + 200.0)
    assert spoken.stalled_ms(100.0) == pytest.approx(150.0)
    assert spoken.stalled_ms(250.0) == 0.0


def test_rates_are_compared_with_the_lowest_of_their_configuration(triton: FakeTriton) -> None:
    triton.script = speaks(1)
    answers = [open_loop.run(triton.address, LOAD, {}, part=0)]
    low, high = (Level.of("it", replace(LOAD, rate=rate), LIMIT, answers, {}) for rate in (1.0, 8.0))
    assert [row["p95 over 1/s"] for row in rows([high, low])] == ["1.00", "1.00"]


def test_each_configuration_is_searched_for_its_own_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """By turns, and whoever's limit is found is left out."""
    truths = {"slow": 5.0, "fast": 40.0}

    def by_turns(
        asked: list[Configuration], loads: dict[str, OpenLoad], limit: Limit, slices: int
    ) -> list[Level]:
        spoken = Answers(1.0, [heard((1.0, 1.0))], [0.0], 0.0)
        levels = [Level.of(one.name, loads[one.name], limit, [spoken], {}) for one in asked]
        p95 = [0.0 if loads[one.name].rate <= truths[one.name] else 2.0 for one in asked]
        return [
            replace(one, spoken=one.asked, first_chunk_ms=replace(one.first_chunk_ms, p95=value))
            for one, value in zip(levels, p95, strict=True)
        ]

    monkeypatch.setattr(command, "_by_turns", by_turns)
    monkeypatch.setattr(open_loop, "run", lambda *_: None)
    asked = [Configuration(name, Server("", None), {}) for name in truths]
    options = command._parser().parse_args(
        ["--find-limit", "--rates", "16", "--first-chunk-ms", "1", "--dry-share", "0"]
    )
    levels = list(command._levels(asked, options))
    for name, truth in truths.items():
        held = [one.load.rate for one in levels if one.configuration == name and one.is_held]
        assert max(held) <= truth < 1.07 * max(held)
    assert {one.configuration for one in levels[:2]} == set(truths)
    assert len({one.configuration for one in levels[-2:]}) == 1


@pytest.mark.needs("matplotlib")
def test_a_measurement_is_told_kept_and_drawn(
    triton: FakeTriton, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from perf.report import __main__ as page

    triton.script, out = speaks(1), tmp_path / "load.json"
    arguments = ["--server", triton.address, "--rates", "20", "240", "--seconds", "0.2", "--slices", "2"]
    compared = [
        "--set",
        "drafter=heads",
        "--beside",
        "drafter=none",
        "--beside",
        "drafter=mtp,draft_length=2",
    ]
    limits = ["--first-chunk-ms", "1000000", "--lengths", "short", "long"]
    assert command.main([*arguments, *compared, *limits, "--find-limit", "--out", str(out)]) == 0
    told = capsys.readouterr().out
    ways = ("drafter=heads", "drafter=none", "drafter=mtp draft_length=2")
    assert all(f"{way}, {length} texts: held " in told for way in ways for length in ("short", "long"))
    shutil.copy(out, tmp_path / "lengths.json")
    assert page.main(["--results", str(tmp_path), "--page", str(tmp_path / "page.md")]) == 0
    assert out.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    written = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert "(load.png)" in written and "| long | 240 |" in written and "`python -m perf.latency`" in written


def test_another_server_is_the_same_but_for_what_is_changed(
    triton: FakeTriton, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    served: list[str] = []

    @contextmanager
    def server_at(address: None, metrics: None, options: list[str], repository: Path) -> Iterator[Server]:
        served.append(parameters_of(repository / "talker")["max_lead_ms"])
        yield Server(triton.address, None)

    triton.script = speaks(1)
    monkeypatch.setattr(command, "server_at", server_at)
    load = ["--rates", "20", "--seconds", "0.2", "--slices", "1", "--out", str(tmp_path / "load.json")]
    command.main([*load, "--change", "talker.max_lead_ms=0", "--beside", "drafter=none"])
    assert served == ["1000", "0"]
    assert "talker.max_lead_ms=0 drafter=none" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--server", "127.0.0.1:1", "--change", "talker.slots=1"], "of a --server nothing can be changed"),
        (["--change", "talker.slots"], "allowed: MODEL.NAME=VALUE"),
        (["--change", "singer.slots=1"], "allowed: MODEL.NAME of control, encoder"),
    ],
)
def test_what_cannot_be_changed_is_refused(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        command.main(arguments)
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize(("rates", "complaint"), [("0", "more than 0"), ("-1", "more than 0")])
def test_rates_that_bring_nothing_are_refused(
    rates: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        command.main(["--server", "127.0.0.1:1", "--rates", rates])
    assert complaint in capsys.readouterr().err
