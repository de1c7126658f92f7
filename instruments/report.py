"""Samples to figures, figures to a table, everything to JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from instruments.environment import Environment

EARLIER = "earlier"
"""Where reports of weights lie that were shipped before, within the folder of results."""


@dataclass(frozen=True)
class Spread:
    """Quantiles of a sample; NaN where it is empty."""

    count: int
    p50: float
    p95: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        if not values:
            return cls(0, math.nan, math.nan)
        p50, p95 = np.quantile(values, (0.5, 0.95))
        return cls(len(values), float(p50), float(p95))


def find(results: Path, name: str) -> Path | None:
    """Where a report lies: of the shipped weights, else of those before."""
    places = (folder / f"{name}.json" for folder in (results, results / EARLIER))
    return next((path for path in places if path.exists()), None)


def table(rows: Sequence[dict[str, str]]) -> str:
    """Rows as text in aligned columns; the first row's keys are the header."""
    header = list(rows[0])
    lines = [header, *([row[name] for name in header] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines
    )


def markdown(rows: Sequence[dict[str, str]]) -> str:
    """Rows as a Markdown table; the first row's keys are the header."""
    header = list(rows[0])
    lines = [header, ["--:"] * len(header), *([row[name] for name in header] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def fill(page: str, tables: Mapping[str, str]) -> str:
    """The page with each table between its marks `<!-- name -->` and `<!-- /name -->`."""
    for name, table in tables.items():
        opening, closing = f"<!-- {name} -->", f"<!-- /{name} -->"
        before, found, rest = page.partition(opening)
        _, closed, after = rest.partition(closing)
        assert found and closed, f"the page has no place for {name}"
        page = f"{before}{opening}\n\n{table}\n\n{closing}{after}"
    return page


def save(
    path: Path, kind: str, environment: Environment, settings: Mapping[str, Any], results: Sequence[Any]
) -> None:
    """Writes one report. `results` are dataclasses; NaN, which JSON does not have, becomes null."""
    told = environment.told()
    report = {
        "kind": kind,
        "environment": told,
        "settings": dict(settings),
        "results": [asdict(result) for result in results],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(_finite(report), allow_nan=False) + "\n", encoding="utf-8")
    stolen = told["stolen_percent"]
    shared = "" if stolen is None else f" ({stolen:.0f} % of its time went to others)"
    print(f"measured on {environment.machine}{shared}; samples and figures: {path}")


def _finite(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, float):
        return round(value, 4) if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return value
