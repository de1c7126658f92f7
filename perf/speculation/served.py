"""What drafting brings in the server: its default pair beside no draft, as `perf.latency` found them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

COMMAND = "python -m perf.latency"
_PLAIN = "none"


def lines(latency: Mapping[str, Any] | None) -> list[dict[str, str]]:
    """One line for each load that was measured with a draft and without one, in one run.

    Args:
        latency: the report, whose results name the `pair` that spoke: "heads+match", "none+match".
    """
    if latency is None:
        return []
    cells: Sequence[Mapping[str, Any]] = latency["results"]
    return list(_lines([cell for cell in cells if cell.get("pair")]))


def _lines(cells: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, str]]:
    plain = {_load(cell): cell for cell in cells if _is_plain(cell)}
    for cell in cells:
        beside = plain.get(_load(cell))
        if _is_plain(cell) or beside is None:
            continue
        yield {
            "next request": cell["mode"],
            "streams": str(cell["streams"]),
            "pair": cell["pair"],
            "audio s/s": _both(cell["audio_s_per_s"], beside["audio_s_per_s"]),
            "over no draft": f"{cell['audio_s_per_s'] / beside['audio_s_per_s']:.2f}",
            "first chunk p50, ms": _both(cell["first_chunk_ms"]["p50"], beside["first_chunk_ms"]["p50"]),
            "p95, ms": _both(cell["first_chunk_ms"]["p95"], beside["first_chunk_ms"]["p95"]),
        }


def _load(cell: Mapping[str, Any]) -> tuple[str, int]:
    return cell["mode"], cell["streams"]


def _is_plain(cell: Mapping[str, Any]) -> bool:
    return bool(str(cell["pair"]).startswith(_PLAIN))


def _both(own: float, plain: float) -> str:
    return f"{own:.1f} ({plain:.1f})"
