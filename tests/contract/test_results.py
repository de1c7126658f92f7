"""Figures that are kept were measured with the shipped weights; those of weights before lie apart."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from instruments.environment import REPOSITORY, ROOT
from instruments.report import EARLIER
from perf.gpu.__main__ import OUR_VOICE

RESULTS = ROOT / "perf" / "results"
OF_SHAPES = {"served shapes", "shapes"}
"""Kinds that are measured with random weights, in the shapes of public talkers."""


@cache
def shipped(name: str) -> str:
    """Start of the hash of a file in the model repository, as `Environment` records it."""
    path = REPOSITORY / name
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.exists() else "none of that name"


def is_of_random_weights(report: dict[str, Any]) -> bool:
    """Which have no file to be compared with; a GPU is measured with either."""
    is_ours = report.get("settings", {}).get("shape") == OUR_VOICE
    return report["kind"] in OF_SHAPES or (report["kind"] == "gpu" and not is_ours)


def stale(report: dict[str, Any]) -> list[str]:
    """Why figures are not those of what is shipped."""
    weights: dict[str, str] = report["environment"]["weights"]
    wrong = [name for name, digest in weights.items() if digest != shipped(name)]
    if is_of_random_weights(report):
        return wrong
    if not weights:
        wrong.append("it names no weights")
    pairs = {pair for result in report["results"] for pair in result.get("pairs", ())}
    for drafter in {pair.partition("+")[0] for pair in pairs} - {"none"}:
        if not any(name.startswith(f"talker/1/drafts/{drafter}/") for name in weights):
            wrong.append(f"it names no weights of {drafter}")
    return wrong


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.json")), ids=lambda path: path.stem)
def test_what_is_kept_belongs_to_the_shipped_weights(path: Path) -> None:
    report = json.loads(path.read_text(encoding="utf-8"))
    command = report["environment"]["command"]
    assert stale(report) == [], f"run it again, or move {path.name} into earlier/: {command}"


def test_nothing_is_both_new_and_earlier() -> None:
    earlier = {path.name for path in (RESULTS / EARLIER).glob("*.json")}
    assert earlier.isdisjoint(path.name for path in RESULTS.glob("*.json"))


def test_other_weights_are_noticed() -> None:
    talker, heads = "talker/1/model.safetensors", "talker/1/drafts/heads/model.safetensors"

    def found(weights: dict[str, str], kind: str = "latency", **result: object) -> list[str]:
        return stale({"kind": kind, "environment": {"weights": weights}, "results": [result]})

    right = {talker: shipped(talker)}
    assert found(right) == []
    assert found({talker: "0" * 16}) == [talker] and found({"gone": "0" * 16}) == ["gone"]
    assert found({}) == ["it names no weights"]
    assert found(right, pairs={"none+match": 3}) == []
    assert found(right, pairs={"heads+match": 3}) == ["it names no weights of heads"]
    assert found({**right, heads: shipped(heads)}, pairs={"heads+match": 3}) == []
    assert found({}, "shapes") == []


def test_of_a_gpu_random_shapes_alone_need_no_weights() -> None:
    def found(shape: str) -> list[str]:
        settings = {"shape": shape}
        return stale({"kind": "gpu", "settings": settings, "environment": {"weights": {}}, "results": [{}]})

    assert found("llasa-1b") == [] and found(OUR_VOICE) == ["it names no weights"]
