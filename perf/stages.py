"""Where the server's time went, from the histograms on its metrics page (`talkahead/telemetry.py`)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

_SAMPLE = re.compile(r'^talkahead_(\w+)_seconds_(bucket|sum)\{(.*\bmodel=".*)\} (\S+)$')
"""Of a stage: it has a model, and what listeners experience has none."""
_BOUND = re.compile(r'le="([^"]+)"')


@dataclass(frozen=True)
class Histogram:
    """Seconds that passages of one stage took: `counts[i]` of them up to `bounds[i]`, cumulative."""

    bounds: tuple[float, ...]
    counts: tuple[float, ...]
    total_s: float

    def since(self, earlier: Histogram) -> Histogram:
        counts = tuple(now - then for now, then in zip(self.counts, earlier.counts, strict=True))
        return Histogram(self.bounds, counts, self.total_s - earlier.total_s)

    def and_also(self, other: Histogram) -> Histogram:
        counts = tuple(one + more for one, more in zip(self.counts, other.counts, strict=True))
        return Histogram(self.bounds, counts, self.total_s + other.total_s)

    def quantile(self, share: float) -> float:
        """Estimated within a bucket by a straight line, as Prometheus does; NaN if nothing passed."""
        wanted = share * self.counts[-1]
        below_s, below = 0.0, 0.0
        for bound_s, count in zip(self.bounds, self.counts, strict=True):
            if count >= wanted and count > below:
                if math.isinf(bound_s):
                    return below_s
                return below_s + (bound_s - below_s) * (wanted - below) / (count - below)
            below_s, below = bound_s, count
        return math.nan


@dataclass(frozen=True)
class Stage:
    """Passages of one stage during a measurement."""

    name: str
    count: int
    total_s: float
    mean_ms: float
    p50_ms: float
    p95_ms: float

    @classmethod
    def of(cls, name: str, histogram: Histogram) -> Self:
        count = int(histogram.counts[-1])
        return cls(
            name=name,
            count=count,
            total_s=histogram.total_s,
            mean_ms=1e3 * histogram.total_s / count,
            p50_ms=1e3 * histogram.quantile(0.5),
            p95_ms=1e3 * histogram.quantile(0.95),
        )


def read(page: str) -> dict[str, Histogram]:
    """Histograms by stage; those of several instances of a model are summed up."""
    counts: dict[str, dict[float, float]] = {}
    totals: dict[str, float] = {}
    for line in page.splitlines():
        if (sample := _SAMPLE.match(line)) is None:
            continue
        stage, kind, labels, value = sample.groups()
        bound = _BOUND.search(labels)
        if kind == "sum":
            totals[stage] = totals.get(stage, 0.0) + float(value)
        elif bound is not None:
            by_bound = counts.setdefault(stage, {})
            bound_s = float(bound.group(1))
            by_bound[bound_s] = by_bound.get(bound_s, 0.0) + float(value)
    histograms = {}
    for stage, by_bound in counts.items():
        bounds = tuple(sorted(by_bound))
        histograms[stage] = Histogram(bounds, tuple(by_bound[bound] for bound in bounds), totals[stage])
    return histograms


def passed(earlier: Mapping[str, Histogram], later: Mapping[str, Histogram]) -> dict[str, Histogram]:
    """What passed between two readings."""
    return {
        name: histogram.since(earlier[name]) if name in earlier else histogram
        for name, histogram in later.items()
    }


def summary(passages: Iterable[Mapping[str, Histogram]]) -> list[Stage]:
    """Of what passed in several pieces of time; stages without a passage are left out."""
    totals: dict[str, Histogram] = {}
    for piece in passages:
        for name, histogram in piece.items():
            totals[name] = totals[name].and_also(histogram) if name in totals else histogram
    return [Stage.of(name, histogram) for name, histogram in totals.items() if histogram.counts[-1]]
