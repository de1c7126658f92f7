"""Rows survive JSON, find their places in the page and beside the papers, and become pictures."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from instruments import report
from instruments.environment import ROOT, Environment
from instruments.recipes import DRAFTS, TALKERS, command
from perf.speculation import tables
from perf.speculation.bench import Row
from perf.speculation.plan import Part
from perf.speculation.quality import Quality, Speech, Spoken
from perf.speculation.seeds import TABLES, nearest
from perf.speculation.speed import Run, Speed

SETTINGS = {
    "surprise": {"bits": 2.0, "entropy_bits": 3.0, "likeliest": 0.5},
    "temperature": 0.7,
    "top_p": 0.95,
    "precision": "float32",
    "teacher_word_errors": 1.3,
    "absent": [{"part": "mtp", "name": "mtp-blind"}],
    "same_trees": [2, 8],
}
ENVIRONMENT = {"cpu": "A processor", "cores": 2, "date": "today", "commit": "abc"}


def _speech(edits: int) -> Speech:
    return Speech((Spoken("a", 41, 20, 2.0, edits, 10, 4.0, "right"),) * 3, 3, None)


def _row(part: Part, draft: str, verifier: str, streams: int = 1, **changes: Any) -> Row:  # noqa: ANN401
    run = Run(1000, 1000, 500, 0.5, 0.5, 0.01, 0.49, 0.1)
    drafter = draft.partition("-")[0]
    row = Row(
        title=f"{draft} + {verifier}",
        part=part,
        talker="shipped",
        drafter=drafter,
        draft=draft,
        verifier=verifier,
        options={},
        mean_size=None,
        preserves="approximate",
        streams=streams,
        speedup=2.0,
        speedup_low=1.9,
        speedup_high=2.1,
        wall_speedup=2.0,
        frames_per_s=2000.0,
        committed_per_step=2.5,
        rho=1.2,
        rho_target=1.0,
        rho_draft=0.2,
        expected=2.5 / 1.2,
        note="",
        quality_options=None,
        quality=Quality.of(_speech(1), _speech(0)),
        speed=Speed(streams, (run,), (run,), run),
        hashes={"talker": "abc"},
    )
    return replace(row, **changes)


PLAIN = _row(Part.PLAIN, "none", "match", title="plain", speedup=1.0, preserves="same tokens")
ROWS = [
    *(replace(PLAIN, streams=streams) for streams in (1, 4)),
    *(_row(Part.NODES, "heads", "tolerance", options={"tolerance": 3, "nodes": nodes}) for nodes in (8, 64)),
    *(
        _row(Part.HEADS, "heads", "tolerance", streams, options={"tolerance": 3}, speedup=1.5 + streams)
        for streams in (1, 4)
    ),
    _row(Part.TUNED, "heads", "tolerance", options={"tolerance": 3}, talker="tuned", speedup=7.5),
    _row(Part.MTP, "mtp", "match", speedup=2.2, preserves="same tokens"),
    _row(Part.ABLATION, "mtp", "everything", quality=None),
    *(
        _row(Part.GROUPS, "draft_lm", "groups", options={"similarity": size / 100}, mean_size=size)
        for size in (3.0, 9.0, 40.0)
    ),
    _row(Part.LENGTH, "draft_lm", "groups", options={"draft_length": 2}, quality=None, speedup=9.0),
    _row(Part.SWAP, "none", "match", mean_size=5.0, speed=None, speedup=None, committed_per_step=None),
]  # fmt: skip


def page_of(rows: list[Row], **more: Any) -> dict[str, str]:  # noqa: ANN401
    return dict(tables.of_page(rows, SETTINGS, ENVIRONMENT, **more))


def test_rows_survive_json(tmp_path: Path) -> None:
    out = tmp_path / "speculation.json"
    report.save(out, "speculation", Environment.record(), SETTINGS, ROWS)
    found = [Row.from_json(one) for one in json.loads(out.read_text())["results"]]
    assert report.table([tables.cells(row) for row in found]) == tables.everything(ROWS)
    assert asdict(found[0])["speed"] == asdict(ROWS[0])["speed"]
    assert {"drafter", "verifier", "streams", "speedup"} <= set(json.loads(out.read_text())["results"][0])


def test_the_page_has_a_place_for_every_table_and_a_table_for_every_place() -> None:
    page = (ROOT / "perf" / "SPECULATION.md").read_text()
    filled = page_of(ROWS)
    assert set(filled) == set(re.findall(r"<!-- ([^/].*?) -->", page))
    again = report.fill(page, filled)
    assert report.fill(again, filled) == again
    empty = page_of([])
    assert empty["bias"] == "Not measured yet." and empty["talker"].startswith("| ")


def test_the_page_says_where_it_was_measured_and_what_has_changed_since() -> None:
    assert "| A processor | not noted | 2 | today | abc |" in page_of(ROWS)["machine"]
    assert "measured again: heads, mtp." in page_of(ROWS, outdated=["heads", "mtp"])["machine"]


def test_rows_that_wait_for_a_training_name_its_command() -> None:
    (line,) = (line for line in page_of(ROWS)["mtp"].splitlines() if "mtp-blind" in line)
    assert line.startswith("| - | mtp-blind (Tian et al. 2025) | - |")
    assert line.endswith("not trained here: `python -m training --recipe mtp-blind` |")
    assert all(
        "mtp-blind" not in table for name, table in page_of(ROWS).items() if name not in ("mtp", "recipes")
    )
    recipes = page_of([])["recipes"]
    assert all(f"`{command(name)}`" in recipes for name in (*DRAFTS, *TALKERS))


def test_a_row_of_what_is_not_shipped_says_so() -> None:
    row = _row(Part.DEPTH, "draft_lm-2", "match")
    told = tables.cells(row)["remarks"].split("; ")[0]
    assert told == "not shipped: `python -m training --recipe draft_lm-2`"
    tuned = _row(Part.TUNED, "heads", "tolerance", talker="tuned")
    assert "--recipe tuned`" in tables.cells(tuned)["remarks"]
    assert "shipped" not in tables.cells(_row(Part.HEADS, "heads", "match"))["remarks"]


def test_equal_trees_are_told_with_the_trees() -> None:
    assert page_of(ROWS)["nodes"].startswith("With 2, 8 nodes `heads-6` has the very trees of `heads`")


def test_a_difference_comes_with_what_could_have_been_shown() -> None:
    row = _row(Part.MTP, "mtp", "topk")
    assert row.quality is not None
    wide = replace(row, quality=replace(row.quality, low=-1.0, high=1.0))
    assert tables.cells(wide)["detectable, points"] == "1.43"  # (1.96 + 0.84) / (2 * 1.96) of 2 points
    alike = replace(row, quality=replace(row.quality, low=0.0, high=0.0))
    assert tables.cells(alike)["detectable, points"] == "-"


def test_an_ablation_that_changes_too_few_sentences_shows_nothing() -> None:
    checked = _row(Part.MTP, "mtp", "topk", options={"top_k_verify": 32})
    without = replace(checked, part=Part.ABLATION, options={"top_k_verify": 32, "eos_top_k": 32})
    assert without.quality is not None
    first, *others = without.quality.spoken
    spoken = (replace(first, digest="b", ending="late"), *others)
    parted = replace(without, quality=replace(without.quality, spoken=spoken))
    (line,) = page_of([checked, parted])["checks"].splitlines()[2:]
    assert "| 3 | 1 | 1 (0) |" in line
    assert line.endswith("| nothing: 1 of 3 differ, and fewer than 6 cannot show any |")
    assert page_of([checked])["checks"] == page_of([parted])["checks"] == "Not measured yet."


def test_floors_name_the_fastest_row_that_counts() -> None:
    k = {"top_k_verify": 8}
    modules = {"mtp": 2.0, "mtp-1": 9.0}
    topk = (_row(Part.MTP, one, "topk", speedup=speed, options=k) for one, speed in modules.items())
    page = page_of([*ROWS, *topk])
    floors, elsewhere = page["floors"].splitlines(), page["elsewhere"].splitlines()
    assert (
        "| heads + tolerance 3 | 2.0 | 3.2 | 2.50 (heads + tolerance) | 5.50 (heads + tolerance) |" in floors
    )
    assert tables.cells(_row(Part.TUNED, "heads", "tolerance", talker="tuned"))["drafter"] == "heads (tuned)"
    assert not any("7.50 (" in line for line in floors) and any("| 7.50 (" in line for line in elsewhere)
    assert any(line.startswith("| mtp + topk | 1.5 | 2.0 | 2.00 (mtp + topk)") for line in floors)
    assert any(line.startswith("| mtp + topk | 9.00 (mtp-1 + topk)") for line in elsewhere)
    assert any(line.startswith("| best") and "2.20 (mtp + match)" in line for line in floors)
    # Lengths are a sweep of one setting: 9x there is no claim.
    assert any(line.startswith("| draft_lm + groups") and "2.00 (" in line for line in floors)


def test_papers_lie_beside_the_row_that_is_nearest() -> None:
    (ours,) = (
        row for table in TABLES if table.name == "001 1" for row in table.rows if row.setting == "groups"
    )
    found = nearest(ROWS, ours)
    assert found is not None and found.mean_size == 9.0
    (heads,) = (
        row
        for table in TABLES
        if table.name == "000 I"
        for row in table.rows
        if row.setting == "4 heads, tau 3 (beside ours)"
    )
    found = nearest(ROWS, heads)
    assert found is not None and (found.part, found.streams) == (Part.HEADS, 1)
    assert nearest([], heads) is None


def test_tokens_that_should_be_plains_and_are_not_are_shouted() -> None:
    row = _row(Part.MTP, "mtp", "match", preserves="same tokens")
    assert "not heard again" in tables.cells(row)["remarks"]
    assert row.quality is not None
    parted = replace(row, quality=replace(row.quality, same_tokens=1))
    assert "TOKENS DIFFER in 2 sentences" in tables.cells(parted)["remarks"]


@pytest.mark.needs("matplotlib")
def test_rows_become_pictures(tmp_path: Path) -> None:
    from perf.speculation import pictures

    made = pictures.draw_all(ROWS, tmp_path / "speculation.json")
    assert [path.name for path in made] == [
        f"speculation_{name}.png" for name in ("methods", "accuracy", "tolerance", "length")
    ]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in made)
    assert pictures.draw_all([PLAIN], tmp_path / "plain.json") == []


def _cell(streams: int, over: str | None) -> dict[str, Any]:
    ratio = {"value": 1.5, "low": 1.25, "high": 2.0}
    gained = ("talker_speed", "audio_s_per_s", "first_chunk_p50", "first_chunk_p95")
    return {
        "mode": "closed",
        "streams": streams,
        "pairs": {"heads+match": 9},
        "tokens_per_step": 1.8,
        "gain": None if over is None else {"over": over, **dict.fromkeys(gained, ratio)},
    }


def test_what_is_served_comes_from_the_servers_own_report() -> None:
    cells = [_cell(1, "drafter=none"), _cell(1, None), _cell(4, "verifier=tolerance")]
    latency = {"environment": {**ENVIRONMENT, "cpu_path": "amx"}, "results": cells}
    served = page_of(ROWS, latency=latency)["served"]
    assert "| A processor | amx | 2 | today | abc |" in served
    (line,) = (line for line in served.splitlines() if "heads+match" in line)
    assert line.startswith("| closed | 1 | heads+match | 1.80 | 1.50 (1.25 to 2.00) |")
    for missing in (None, {"environment": ENVIRONMENT, "results": cells[1:]}):
        assert page_of(ROWS, latency=missing)["served"].startswith(
            "Not measured yet: `python -m perf.latency`"
        )
