"""What was measured is held against floors and goals."""

from __future__ import annotations

from typing import Any

import pytest

from perf.report.bars import bars


def load(eight_ms: float) -> dict[str, Any]:
    levels = ((1.0, 40.0), (8.0, eight_ms))
    return {"results": [{"load": {"rate": rate}, "first_chunk_ms": {"p95": p95}} for rate, p95 in levels]}


def twin(share_of_the_twins: float) -> dict[str, Any]:
    """At four fifths of what the twin can, and at another rate."""

    def level(rate: float, p50: float) -> dict[str, Any]:
        return {"load": {"rate": rate}, "first_chunk_ms": {"p50": p50}}

    levels = [level(5.0, 1.0), level(5.0, 1.0), level(8.0, 200.0 * share_of_the_twins), level(8.0, 200.0)]
    return {"settings": {"stable_rate": 10.0}, "results": levels}


def methods(speeds: dict[str, float]) -> dict[str, Any]:
    def cell(streams: int, pair: str, speed: float) -> dict[str, Any]:
        return {"streams": streams, "pairs": {pair: 5}, "gain": {"talker_speed": {"value": speed}}}

    return {"results": [cell(streams, *one) for one in speeds.items() for streams in (1, 4)]}


@pytest.mark.parametrize(
    ("reports", "told"),
    [
        ({"load": load(44.0)}, "| 1.60x | 1.20x | 1.10x, the goal |"),
        ({"load": load(60.0)}, "| 1.60x | 1.20x | 1.50x |"),
        ({"load": load(80.0)}, "| 1.60x | 1.20x | 2.00x, **missed** |"),
        ({"twin": twin(0.02)}, "| 90.0% | 97.0% | 98.0%, the goal |"),
        ({"twin": twin(0.08)}, "| 90.0% | 97.0% | 92.0% |"),
        ({"twin": twin(0.2)}, "| 90.0% | 97.0% | 80.0%, **missed** |"),
        ({"order": {"settings": {"limits": [{"rate": 12.0}, {"rate": 10.0}]}}}, "| 1.20x, **missed** |"),
        ({"methods": methods({"heads+tolerance": 2.5})}, "| 2.00x | 3.20x | 2.50x |"),
        ({"methods": methods({"heads+tolerance": 1.5})}, "| 2.00x | 3.20x | 1.50x, **missed** |"),
        ({"methods": methods({"mtp+topk": 2.0})}, "| 2.00x | 3.20x | not yet |"),
        ({"soak": {"results": [{"ran_dry": 2, "spoken": 4000}]}}, "| 0.10% | 0.00% | 0.05% |"),
    ],
)
def test_a_figure_is_told_with_its_verdict(reports: dict[str, Any], told: str) -> None:
    assert told in bars(reports)


def test_what_a_report_does_not_hold_is_not_measured_yet() -> None:
    """Other rates, no limit that was held, no report at all."""
    other = {"results": [{"load": {"rate": 4.0}, "first_chunk_ms": {"p95": 1.0}}]}
    none_held = {"settings": {"limits": [{"rate": 0.0}, {"rate": 0.0}]}}
    lines = bars({"load": other, "order": none_held}).splitlines()[2:]
    assert all(line.endswith("| not yet |") for line in lines)
