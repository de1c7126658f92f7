"""Which rows there are, which are chosen, and what was measured before."""

from __future__ import annotations

import json
from math import log2
from pathlib import Path
from typing import Any

import pytest
from talkahead.backbone.checkpoint import Checkpoint
from talkahead.manifest import sha256
from talkahead.speculation.contracts import Preserves

from instruments.environment import REPOSITORY
from instruments.recipes import DRAFTS, TALKERS
from perf.speculation.installation import Installation
from perf.speculation.kept import Kept
from perf.speculation.methods import ACCEPT_ALL, PLAIN, Method, Talker
from perf.speculation.plan import (
    BLIND_TOP_KS,
    MTP,
    TOP_KS,
    Absent,
    Part,
    absent,
    chosen,
    near,
    plans,
    same_trees,
)
from perf.speculation.seeds import TABLES


def _put(path: Path, value: Any) -> None:  # noqa: ANN401
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


FLAT, DEEP, DEEPER = [[0], [1]], [[0], [0, 0], [0, 0, 0]], [[0], [0, 0], [0, 0, 0], [0, 0, 0, 0]]


def _put_trees(talker: Path, draft: str, *trees: list[list[int]]) -> None:
    """Of 8 nodes, 32 and so on, as far as their names go; for a tolerance as for one draw."""
    folder = talker / "drafts" / draft
    _put(folder / "config.json", {})
    (folder / "model.safetensors").write_bytes(draft.encode())
    listed = [
        {"nodes": 8 * 4**place, "committed_per_step": 2.0, "paths": paths}
        for place, paths in enumerate(trees)
    ]
    weights = sha256(folder / "model.safetensors")
    _put(folder / "trees.json", {"draft": weights, "positions": 1, "trees": listed})


@pytest.fixture
def found(tmp_path: Path) -> Installation:
    """Heads with trees of 8 and 32 nodes, modules, a draft model, and groups of two sizes; no `heads-6`."""
    talker = tmp_path / "talker" / "1"
    for draft in ("heads", *MTP, "draft_lm"):
        _put(talker / "drafts" / draft / "config.json", {})
    _put_trees(talker, "heads", FLAT, DEEP)
    sizes = [{"similarity": 0.8, "mean_size": 9.0}, {"similarity": 0.9, "mean_size": 2.0}]
    _put(talker / "groups" / "groups.json", {"groups": sizes})
    return Installation(tmp_path)


def test_rows_are_what_is_installed(found: Installation) -> None:
    methods = [plan.method for plan in plans(found)]
    assert len({method.title for method in methods}) == len(methods)
    assert {method.draft for method in methods} == {"none", "heads", *MTP, "draft_lm"}
    assert [one.nodes for one in methods if one.nodes] == [8, 32]
    lost = absent(found)
    assert Absent("deeper", "heads-6") in lost and Absent("tuned", "tuned") in lost
    assert not {one.name for one in lost} & {"", "heads", *MTP, "draft_lm"}


def test_what_is_absent_can_be_trained_by_its_recipe(tmp_path: Path) -> None:
    """Of a talker alone, every row but plain decoding waits for something that has a command."""
    lost = absent(Installation(tmp_path))
    names = {one.name for one in lost}
    assert names <= {*DRAFTS, *TALKERS} and {"heads", "mtp-blind", "draft_lm-2", "smaller"} <= names
    assert names | {"heads-6"} == {*DRAFTS, *TALKERS}  # and there is no recipe that no row asks for


def test_six_heads_are_compared_with_four_where_their_trees_differ(found: Installation) -> None:
    assert same_trees(found) == [] and Absent("deeper", "heads-6") in absent(found)
    _put_trees(found.talker(Talker.SHIPPED), "heads-6", FLAT, DEEPER)
    assert same_trees(found) == [8] and Absent("deeper", "heads-6") not in absent(found)
    rows = [(plan.part, plan.method.draft, plan.method.nodes) for plan in plans(found)]
    assert [row for row in rows if row[1] == "heads-6"] == [
        (Part.NODES, "heads-6", 32),
        (Part.DEEPER, "heads-6", 32),
    ]
    assert (Part.DEEPER, "heads", 32) in rows and (Part.DEEPER, "heads", 8) not in rows


def test_a_part_or_the_beginning_of_a_title_chooses_rows_and_plain_is_always_there(
    found: Installation,
) -> None:
    every = plans(found)
    picked = chosen(every, ["bias", "mtp + topk"], quick=False)
    assert picked[0].method == PLAIN
    assert {plan.part for plan in picked[1:]} == {Part.BIAS, Part.MTP, Part.ABLATION}
    ks = [plan.method.options["top_k_verify"] for plan in picked if plan.part is Part.MTP]
    assert ks == list(TOP_KS)
    assert {plan.part for plan in chosen(every, ["draft_lm"], quick=False)} == {Part.PLAIN, Part.DRAFT_LM}
    assert {plan.part for plan in chosen(every, [], quick=False)} == {plan.part for plan in every}
    quick = chosen(every, [], quick=True)
    assert all(plan.is_headline for plan in quick) and 1 < len(quick) < len(every)
    with pytest.raises(ValueError, match=r"rows: 'nonsense', allowed: plain, nodes"):
        chosen(every, ["nonsense"], quick=False)


def test_groups_are_chosen_by_their_size(found: Installation) -> None:
    known = found.similarities()
    assert [one.mean_size for one in known] == [2.0, 9.0]
    assert near(known, 1.0).threshold == 0.9 and near(known, 40.0).threshold == 0.8


@pytest.mark.parametrize(
    ("method", "keeps_tokens", "preserves"),
    [
        (Method("mtp", "match"), True, Preserves.TOKENS),
        (Method("heads", "tolerance", {"tolerance": 1}), True, Preserves.NOTHING),
        (Method("heads", "tolerance", {"tolerance": 2}), False, Preserves.NOTHING),
        (Method("draft_lm", "ratio"), False, Preserves.DISTRIBUTION),
        (Method("mtp", ACCEPT_ALL), False, Preserves.NOTHING),
        (Method("heads", "match", talker=Talker.TUNED), False, Preserves.NOTHING),
        (Method(swapped_within=0.8), False, Preserves.NOTHING),
    ],
)
def test_what_a_method_promises(method: Method, keeps_tokens: bool, preserves: Preserves) -> None:
    assert (method.keeps_tokens, method.preserves) == (keeps_tokens, preserves)


def test_what_was_measured_is_not_measured_again(tmp_path: Path) -> None:
    calls: list[int] = []

    def make() -> dict[str, Any]:
        calls.append(len(calls))
        return {"value": calls[-1]}

    assert Kept(tmp_path).get({"method": "a", "seeds": [1, 2]}, make) == {"value": 0}
    assert Kept(tmp_path).get({"seeds": [1, 2], "method": "a"}, make) == {"value": 0}
    assert Kept(tmp_path).get({"method": "a", "seeds": [1]}, make) == {"value": 1}
    fresh = Kept(tmp_path, fresh=True)
    assert [fresh.get({"method": "a", "seeds": [1]}, make) for _ in range(2)] == [{"value": 2}] * 2
    assert len(calls) == 3


def test_a_failed_measurement_is_not_kept(tmp_path: Path) -> None:
    def fail() -> dict[str, Any]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Kept(tmp_path).get({"method": "a"}, fail)
    assert Kept(tmp_path).get({"method": "a"}, lambda: {"value": 1}) == {"value": 1}


def test_a_row_belongs_to_the_files_that_it_was_measured_with(found: Installation) -> None:
    weights = found.talker(Talker.SHIPPED) / "drafts" / "mtp" / "model.safetensors"
    weights.write_bytes(b"one")
    before = found.hashes(Method("mtp", "match"))
    assert found.is_current("shipped", "mtp", before)
    weights.write_bytes(b"other")
    assert not found.is_current("shipped", "mtp", before)
    assert not found.is_current("tuned", "mtp", before)


def test_the_paper_s_k_are_compared_as_shares_of_the_shipped_vocabulary() -> None:
    """100, 500 and 1,000 of 65,536 codes, and the nearest power of two beside each."""
    codes = Checkpoint(REPOSITORY / "talker" / "1").config.eos
    shares = [round(k * codes / 65_536) for k in (100, 500, 1_000)]
    assert tuple(2 ** round(log2(share)) for share in shares) == BLIND_TOP_KS
    (told,) = (table.remark for table in TABLES if table.name == "003 I")
    assert f"are {shares[0]}, {shares[1]}, {shares[2]} of ours" in told
