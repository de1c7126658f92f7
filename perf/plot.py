"""`python -m perf.plot perf/results/latency.json`: first sound by number of streams, as a picture."""

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

_STYLES = {"closed": "o--", "playing": "s-"}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m perf.plot", description=__doc__)
    parser.add_argument("report", type=Path, help="what perf.latency wrote")
    parser.add_argument("--out", type=Path, help="PNG or SVG file; default: the report's name with .png")
    options = parser.parse_args(arguments)
    out = options.out or options.report.with_suffix(".png")
    draw(json.loads(options.report.read_text(encoding="utf-8")), out)
    print(out)
    return 0


def draw(report: dict[str, Any], out: Path) -> None:
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
    machine = report["environment"]
    cpu = f"{machine['cores']} cores of {machine['cpu']}, {machine['cpu_path']}"
    figure.suptitle(f"{cpu}, commit {machine['commit'][:10]}", fontsize=9)
    figure.savefig(out, dpi=150)
    pyplot.close(figure)


if __name__ == "__main__":
    sys.exit(main())
