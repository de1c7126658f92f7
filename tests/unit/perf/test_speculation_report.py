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
}


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
        likeness="embedding",
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
        speed=Speed(streams, (run,), (run,)),
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


def test_rows_survive_json(tmp_path: Path) -> None:
    out = tmp_path / "speculation.json"
    report.save(out, "speculation", Environment.record(), SETTINGS, ROWS)
    found = [Row.from_json(one) for one in json.loads(out.read_text())["results"]]
    assert report.table([tables.cells(row) for row in found]) == tables.everything(ROWS)
    assert asdict(found[0])["speed"] == asdict(ROWS[0])["speed"]
    assert {"drafter", "verifier", "streams", "speedup"} <= set(json.loads(out.read_text())["results"][0])


def test_the_page_has_a_place_for_every_table_and_a_table_for_every_place() -> None:
    page = (ROOT / "perf" / "SPECULATION.md").read_text()
    filled = dict(tables.of_page(ROWS, SETTINGS))
    assert set(filled) == set(re.findall(r"<!-- ([^/].*?) -->", page))
    again = report.fill(page, filled)
    assert report.fill(again, filled) == again
    empty = dict(tables.of_page([], SETTINGS))
    assert empty["bias"] == "Not measured yet." and empty["talker"].startswith("| ")


def test_floors_name_the_fastest_row_that_counts() -> None:
    floors = dict(tables.of_page(ROWS, SETTINGS))["floors"].splitlines()
    assert (
        "| heads + tolerance 3 | 2.0 | 3.2 | 2.50 (heads + tolerance) | 5.50 (heads + tolerance) |" in floors
    )
    assert tables.cells(_row(Part.TUNED, "heads", "tolerance", talker="tuned"))["drafter"] == "heads (tuned)"
    assert any("on the tuned base" in line and "7.50 (" in line for line in floors)
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
        row for table in TABLES if table.name == "000 I" for row in table.rows if row.committed == 3.80
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


def test_rows_become_pictures(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="only the extra `perf` brings it")
    from perf.speculation import pictures

    made = pictures.draw_all(ROWS, tmp_path / "speculation.json")
    assert [path.name for path in made] == [
        f"speculation_{name}.png" for name in ("methods", "accuracy", "tolerance", "length")
    ]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in made)
    assert pictures.draw_all([PLAIN], tmp_path / "plain.json") == []
