"""What drafting brings in the server: its default pair over no draft, as `perf.latency` found by turns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

COMMAND = "python -m perf.latency"
OTHERS = (
    "python -m perf.latency --modes closed --streams 1 4 --set drafter=heads --set verifier=tolerance "
    "--set tolerance=3 --also drafter=mtp,verifier=topk --also drafter=draft_lm,verifier=groups "
    "--out perf/results/methods.json"
)
"""What is fastest of each paper's drafter, with which speech is another."""
_NO_DRAFT = "drafter=none"


def lines(latency: Mapping[str, Any] | None) -> list[dict[str, str]]:
    """One line for each load that was measured with the default pair and without a draft, in one run.

    Args:
        latency: the report, whose results name the `pairs` that spoke, and what they gain over another.
    """
    return [] if latency is None else list(_lines(latency))


def _lines(latency: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    for cell in latency["results"]:
        gain = cell.get("gain")
        if gain is None or gain["over"] != _NO_DRAFT:
            continue
        yield {
            "next request": cell["mode"],
            "streams": str(cell["streams"]),
            "pair": ", ".join(cell["pairs"]),
            "A": f"{cell['tokens_per_step']:.2f}",
            "talker's speed": _ratio(gain["talker_speed"]),
            "audio s/s": _ratio(gain["audio_s_per_s"]),
            "first chunk p50": _ratio(gain["first_chunk_p50"]),
            "p95": _ratio(gain["first_chunk_p95"]),
        }


def _ratio(ratio: Mapping[str, float]) -> str:
    return f"{ratio['value']:.2f} ({ratio['low']:.2f} to {ratio['high']:.2f})"
