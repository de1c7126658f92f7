"""`python -m deploy.observability.picture`: the dashboard's panels as one picture, without Grafana.

Every line is asked of a Prometheus that has scraped a server, as Grafana would ask it.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # writes files, needs no screen
from matplotlib import pyplot
from matplotlib.axes import Axes

from deploy.observability.panels import QUESTIONS, Line, Panel
from deploy.observability.promql import CHOSEN, WINDOW

_POINTS = 120
_FONT = 7


@dataclass(frozen=True)
class Series:
    """Values over seconds, with the name that the legend gives them."""

    name: str
    at_s: list[float]
    values: list[float]


@dataclass(frozen=True)
class History:
    """What a Prometheus has of the last seconds.

    Args:
        window: of rates, as `30s`: some scrapes must lie in it.
    """

    url: str
    seconds: float
    window: str
    job: str

    def series(self, line: Line) -> Iterator[Series]:
        expression = line.expression.replace(CHOSEN, f'job="{self.job}"').replace(WINDOW, self.window)
        now = time.time()
        asked = {
            "query": expression,
            "start": f"{now - self.seconds:.3f}",
            "end": f"{now:.3f}",
            "step": f"{self.seconds / _POINTS:.3f}",
        }
        with urllib.request.urlopen(f"{self.url}/api/v1/query_range?{urllib.parse.urlencode(asked)}") as page:
            found = json.load(page)["data"]["result"]
        for one in found:
            points = [(float(at) - now, float(value)) for at, value in one["values"]]
            kept = [point for point in points if math.isfinite(point[1])]
            if kept:
                yield Series(_legend(line.legend, one["metric"]), *map(list, zip(*kept, strict=True)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m deploy.observability.picture", description=__doc__)
    add = parser.add_argument
    add("prometheus", help="its address, as http://127.0.0.1:9090")
    add("--seconds", type=float, default=300.0, help="to look back (%(default)g)")
    add("--window", default="30s", help="of rates (%(default)s)")
    add("--job", default="talkahead", help="of the scrapes (%(default)s)")
    add("--out", type=Path, default=Path("dashboard.png"), help="(%(default)s)")
    options = parser.parse_args(arguments)
    draw(History(options.prometheus, options.seconds, options.window, options.job), options.out)
    print(options.out)
    return 0


def draw(history: History, out: Path) -> None:
    """A row for each question, as on the dashboard."""
    columns = max(len(question.panels) for question in QUESTIONS)
    figure, axes = pyplot.subplots(
        len(QUESTIONS), columns, figsize=(5 * columns, 2.6 * len(QUESTIONS)), layout="constrained"
    )
    for question, row in zip(QUESTIONS, axes, strict=True):
        for panel, axis in zip(question.panels, row, strict=True):
            _draw(panel, history, axis)
        row[0].set_ylabel(question.asks, fontsize=_FONT + 2, fontweight="bold")
    figure.savefig(out, dpi=90)
    pyplot.close(figure)


def _draw(panel: Panel, history: History, axis: Axes) -> None:
    for line in panel.lines:
        for one in history.series(line):
            axis.plot(one.at_s, one.values, label=one.name, linewidth=1)
    if panel.limit is not None:
        axis.axhline(panel.limit, color="red", linestyle="--", linewidth=0.8)
    axis.set_title(f"{panel.title} ({panel.unit})", fontsize=_FONT + 1)
    axis.tick_params(labelsize=_FONT)
    if axis.get_legend_handles_labels()[0]:
        axis.legend(fontsize=_FONT - 1, ncols=2)


def _legend(legend: str, labels: dict[str, str]) -> str:
    return re.sub(r"{{(\w+)}}", lambda name: labels.get(name[1], ""), legend)


if __name__ == "__main__":
    sys.exit(main())
