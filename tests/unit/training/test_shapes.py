"""Expected speed-up from costs and trials whose answer can be counted by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from instruments.report import fill
from training.shapes import STREAMS, Candidate, Costing, best

SHAPE = "2x32x64x32:101"
CONFIG = {
    "num_hidden_layers": 2,
    "hidden_size": 32,
    "intermediate_size": 64,
    "head_dim": 32,
    "vocab_size": 101,
}


def _costing() -> Costing:
    """A plain step takes 1 ms with its draw; 4 nodes take 1.7 ms, and 0.1 ms a draw."""
    ms = {}
    for streams in STREAMS:
        ms |= {(SHAPE, "step", streams, 1): 0.9, (SHAPE, "step", streams, 4): 1.7}
        ms |= {(SHAPE, "draw", streams, 1): 0.1, (SHAPE, "draw", streams, 4): 0.4}
        ms |= {(SHAPE, "heads", streams, 4): 0.2, (SHAPE, "draft", streams, 1): 0.3}
    return Costing(ms, {SHAPE: 1_000})


def _candidate() -> Candidate:
    trees = [
        {"nodes": 1, "verifier": "match", "committed_per_step": 1.0},
        {"nodes": 4, "verifier": "match", "committed_per_step": 2.3},
        {"nodes": 4, "verifier": "tolerance 3", "committed_per_step": 3.1},
    ]
    cuts = [{"layers": 1, "length": 2, "committed_per_step": 2.2}]
    return Candidate("tried", SHAPE, {}, {"trees": trees, "cuts": cuts})


def test_speed_is_tokens_over_the_cost_in_plain_steps() -> None:
    chosen = best(list(_candidate().expectations(_costing())))
    heads = chosen[SHAPE, 4, "heads, match"]
    assert heads.size == 4 and heads.cost == pytest.approx(1.7 + 0.4 + 0.2)
    assert heads.speedup == pytest.approx(1.0)
    assert heads.frames_per_s == pytest.approx(4_000)
    lenient = chosen[SHAPE, 1, "heads, tolerance 3"]
    assert lenient.speedup == pytest.approx(3.1 / (1.7 + 3 * 0.4 + 0.2))


def test_a_draft_pays_for_each_of_its_tokens_and_for_the_nodes_between_measured_sizes() -> None:
    (draft,) = [
        one for one in _candidate().expectations(_costing()) if one.streams == 1 and "draft" in one.how
    ]
    step = 1.0 + (2.1 - 1.0) * 2 / 3  # three nodes, between one and four
    assert draft.cost == pytest.approx(step + 2 * (0.3 + 0.1))


def test_a_checkpoint_without_word_errors_is_read(tmp_path: Path) -> None:
    trial = {"results": [{"shape": CONFIG, "trees": [], "cuts": []}]}
    (tmp_path / "draft_trial.json").write_text(json.dumps(trial))
    candidate = Candidate.read(tmp_path)
    assert (candidate.shape, candidate.label, candidate.trained) == (SHAPE, "2x32x64", {})


def test_tables_take_the_place_of_older_ones() -> None:
    page = "Why.\n<!-- costs -->\nold\n<!-- /costs -->\nThus.\n"
    filled = fill(fill(page, {"costs": "new"}), {"costs": "newer"})
    assert filled == "Why.\n<!-- costs -->\n\nnewer\n\n<!-- /costs -->\nThus.\n"
