"""Engines are timed by turns, on windows that go on from a state, on prompts, and on steps."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import pytest
import torch
from talkahead.backbone.native_decoder import can_multiply
from tiny_voice import write_repository

from perf.engines.__main__ import main
from perf.engines.codec_passes import WINDOWS_S
from perf.engines.prompt_passes import SYMBOLS
from perf.engines.talker_passes import NODES, ROWS
from perf.engines.timing import Case, Timing, table


def test_every_engine_that_is_here_is_timed_at_every_size(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    repository, out = write_repository(tmp_path / "voice"), tmp_path / "engines.json"
    threads = torch.get_num_threads()
    try:
        main(["--repository", str(repository), "--batches", "1", "4", "--rounds", "2", "--out", str(out)])
    finally:
        torch.set_num_threads(threads)
    report = json.loads(out.read_text(encoding="utf-8"))
    cases = [tuple(one["case"].values()) for one in report["results"]]
    assert len(set(cases)) == len(cases)
    sizes = {(part, engine): 0 for part, engine, _, _ in cases}
    for part, engine, _, _ in cases:
        sizes[part, engine] += 1
    assert sizes["codec", "torch"] == sizes["codec", "native"] == 2 * len(WINDOWS_S)
    assert sizes["prompt encoder", "torch"] == sizes["prompt encoder", "native"] == len(SYMBOLS)
    assert {case[2:] for case in cases if case[:2] == ("talker", "torch float32")} == set(
        product(ROWS, NODES)
    )
    assert ("talker", "native bfloat16") in sizes or not can_multiply(torch.bfloat16)
    assert all(len(one["pass_ms"]) == 2 and min(one["pass_ms"]) > 0 for one in report["results"])
    left_out = capsys.readouterr().err
    assert "codec by onnxruntime is left out: " in left_out and "build the engine with: " in left_out


def test_the_table_compares_with_the_first() -> None:
    one, other = Case("codec", "torch", 4, 20), Case("codec", "native", 4, 20)
    rows = table([Timing(one, [4.0, 5.0, 9.0]), Timing(other, [2.5])])
    assert "| batch | size | torch | native |" in rows
    assert "| 4 | 20 | 800.0 (1.00) | 1600.0 (2.00) |" in rows
