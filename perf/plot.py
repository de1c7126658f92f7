"""`python -m perf.plot perf/results/latency.json` (or `load.json`): first sound by streams or by rate."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")  # writes files, needs no screen
from matplotlib import pyplot
from matplotlib.figure import Figure

_STYLES = {"closed": "o--", "playing": "s-"}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m perf.plot", description=__doc__)
    parser.add_argument("report", type=Path, help="what perf.latency or perf.load wrote")
    parser.add_argument("--out", type=Path, help="PNG or SVG file; default: the report's name with .png")
    options = parser.parse_args(arguments)
    out = options.out or options.report.with_suffix(".png")
    report = json.loads(options.report.read_text(encoding="utf-8"))
    _DRAWN[report["kind"]](report, out)
    print(out)
    return 0


def draw_streams(report: dict[str, Any], out: Path) -> None:
    """One panel for the first chunk, one for the first audible sample; medians, with bands up to the 95th."""
    # What these were compared with is not shown.
    measured = [
        one for one in report["results"] if one["configuration"] == report["results"][0]["configuration"]
    ]
    figure, axes = pyplot.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
    panels = {"first chunk": "first_chunk_ms", "first audible sample": "first_audible_ms"}
    for axis, (title, field) in zip(axes, panels.items(), strict=True):
        for mode, style in _STYLES.items():
            cells = sorted(
                (cell for cell in measured if cell["mode"] == mode and cell["spoken"]),
                key=lambda cell: int(cell["streams"]),
            )
            if cells:
                streams = [cell["streams"] for cell in cells]
                medians, highs = ([cell[field][quantile] for cell in cells] for quantile in ("p50", "p95"))
                (line,) = axis.plot(streams, medians, style, label=f"{mode}, median")
                axis.fill_between(streams, medians, highs, color=line.get_color(), alpha=0.2, label="to p95")
        axis.set(title=title, xlabel="streams", xscale="log")
        axis.set_xticks(sorted({cell["streams"] for cell in measured}), minor=False)
        axis.xaxis.set_major_formatter("{x:.0f}")
        axis.minorticks_off()
        axis.grid(alpha=0.3)
    axes[0].set(ylabel="milliseconds since the request")
    axes[0].set_ylim(bottom=0)
    axes[0].legend()
    _finish(figure, report, out)


def draw_rates(report: dict[str, Any], out: Path) -> None:
    """One panel for the first chunk, with the limit of its p95; one for what ran dry or was refused."""
    figure, (chunks, misses) = pyplot.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    results = report["results"]
    for configuration in dict.fromkeys(one["configuration"] for one in results):
        levels = sorted(
            (one for one in results if one["configuration"] == configuration and one["spoken"]),
            key=lambda one: float(one["load"]["rate"]),
        )
        rates = [one["load"]["rate"] for one in levels]
        medians, highs = ([one["first_chunk_ms"][quantile] for one in levels] for quantile in ("p50", "p95"))
        (line,) = chunks.plot(rates, medians, "o-", label=f"{configuration}: median, to p95")
        chunks.fill_between(rates, medians, highs, color=line.get_color(), alpha=0.2)
        for style, field, name in (("s-", "ran_dry", "ran dry"), ("^--", "refused", "refused")):
            shares = [100 * one[field] / one["asked"] for one in levels]
            misses.plot(rates, shares, style, color=line.get_color(), label=f"{configuration}: {name}")
    chunks.axhline(
        results[0]["limit"]["first_chunk_ms"], color="gray", linestyle=":", label="limit of the p95"
    )
    chunks.set(title="first chunk", ylabel="milliseconds since the request", yscale="log")
    misses.set(title="not as it should be", ylabel="% of requests", ylim=(0, None))
    for axis in (chunks, misses):
        axis.set(xlabel=f"requests a second ({results[0]['load']['spacing']})")
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8)
    _finish(figure, report, out)


def _finish(figure: Figure, report: dict[str, Any], out: Path) -> None:
    """With the machine's name above it."""
    machine = report["environment"]
    cpu = f"{machine['cores']} cores of {machine['cpu']}, {machine['cpu_path']}"
    figure.suptitle(f"{cpu}, commit {machine['commit'][:10]}", fontsize=9)
    figure.savefig(out, dpi=150)
    pyplot.close(figure)


_DRAWN = {"latency": draw_streams, "load": draw_rates}


if __name__ == "__main__":
    sys.exit(main())
