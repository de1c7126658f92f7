"""Reports as pictures."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")  # writes files, needs no screen
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure

Report = dict[str, Any]
"""As `instruments.report` writes them."""

PEERS: dict[str, dict[str, Any]] = json.loads(
    Path(__file__).with_name("peers.json").read_text(encoding="utf-8")
)
"""First chunks in milliseconds by closed streams, as published, with the source."""

_STYLES = {"closed": "o--", "playing": "s-"}
_SIZE = (9.0, 3.6)


def draw_streams(report: Report, out: Path) -> None:
    """One panel for the first chunk, one for the first audible sample; medians, with bands up to the 95th."""
    measured = of_first_configuration(report)
    figure, axes = pyplot.subplots(1, 2, figsize=_SIZE, sharey=True, layout="constrained")
    panels = {"first chunk": "first_chunk_ms", "first audible sample": "first_audible_ms"}
    for axis, (title, field) in zip(axes, panels.items(), strict=True):
        for mode, style in _STYLES.items():
            cells = [one for one in measured if one["mode"] == mode]
            if cells:
                _band(axis, [one["streams"] for one in cells], cells, field, style, mode)
        _by_streams(axis, sorted({one["streams"] for one in measured}))
        axis.set(title=title)
    axes[0].set(ylabel="milliseconds since the request")
    axes[0].set_ylim(bottom=0)
    axes[0].legend()
    _finish(figure, report, out)


def draw_peers(report: Report, out: Path) -> None:
    """The first chunk by streams that ask again when they have been answered, in those of one stream."""
    figure, axis = pyplot.subplots(figsize=(7.0, 4.0), layout="constrained")
    own = {
        str(one["streams"]): one["first_chunk_ms"]["p50"]
        for one in of_first_configuration(report)
        if one["mode"] == "closed"
    }
    curves = {name: (peer["ms"], "o--", 1.2) for name, peer in PEERS.items()}
    for name, (curve, style, width) in {"this server (p50)": (own, "s-", 3.0), **curves}.items():
        streams = sorted(map(int, curve))
        ratios = [curve[str(count)] / curve["1"] for count in streams]
        axis.plot(streams, ratios, style, linewidth=width, label=name)
    _by_streams(axis, [1, 2, 4, 8, 16, 32, 64])
    axis.set(ylabel="first chunk over that of one stream", yscale="log", xlabel="streams, closed loop")
    axis.yaxis.set_major_formatter("{x:g}")
    axis.legend(fontsize=8)
    _finish(figure, report, out)


def draw_rates(report: Report, out: Path) -> None:
    """One panel for the first chunk, with the limit of its p95; one for what ran dry or was refused."""
    figure, (chunks, misses) = pyplot.subplots(1, 2, figsize=_SIZE, layout="constrained")
    for name, levels in _by_configuration(report):
        rates = [one["load"]["rate"] for one in levels]
        color = _band(chunks, rates, levels, "first_chunk_ms", "o-", name)
        for style, field, what in (("s-", "ran_dry", "ran dry"), ("^--", "refused", "refused")):
            shares = [100 * one[field] / one["asked"] for one in levels]
            misses.plot(rates, shares, style, color=color, label=f"{name}: {what}")
    limit = report["results"][0]["limit"]["first_chunk_ms"]
    chunks.axhline(limit, color="gray", linestyle=":", label="limit of the p95")
    chunks.set(title="first chunk", ylabel="milliseconds since the request", yscale="log")
    misses.set(title="not as it should be", ylabel="% of requests", ylim=(0, None))
    for axis in (chunks, misses):
        _by_rate(axis, report)
    _finish(figure, report, out)


def draw_twin(report: Report, out: Path) -> None:
    """First and last chunks by rate, and real-time factors, as in Du et al. 2021, figures 3 and 4."""
    figure, (chunks, factors) = pyplot.subplots(1, 2, figsize=_SIZE, layout="constrained")
    for name, levels in _by_configuration(report):
        rates = [one["load"]["rate"] for one in levels]
        color = _band(chunks, rates, levels, "first_chunk_ms", "o-", f"{name}: first chunk")
        lasts = [one["last_chunk_ms"]["p50"] for one in levels]
        chunks.plot(rates, lasts, "^:", color=color, label=f"{name}: last chunk, median")
        _band(factors, rates, levels, "real_time_factor", "o-", name)
    chunks.set(title="latency", ylabel="milliseconds since the request", yscale="log")
    factors.set(title="real-time factor", ylim=(0, None))
    for axis in (chunks, factors):
        _by_rate(axis, report)
    _finish(figure, report, out)


def of_first_configuration(report: Report) -> list[dict[str, Any]]:
    """Cells of what was measured, by streams, without what it was compared with."""
    first = report["results"][0]["configuration"]
    own = [one for one in report["results"] if one["configuration"] == first and one["spoken"]]
    return sorted(own, key=lambda one: int(one["streams"]))


def _by_configuration(report: Report) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Levels by rate; of a rate that was tried twice the second, which decides."""
    for name in dict.fromkeys(one["configuration"] for one in report["results"]):
        own = [one for one in report["results"] if one["configuration"] == name and one["spoken"]]
        by_rate = {float(one["load"]["rate"]): one for one in own}
        yield name, [by_rate[rate] for rate in sorted(by_rate)]


def _band(
    axis: Axes, places: Sequence[float], cells: Sequence[dict[str, Any]], field: str, style: str, name: str
) -> Any:  # noqa: ANN401
    """The line of the medians, and a band up to the 95th percentiles; returns its colour."""
    medians, highs = ([one[field][quantile] for one in cells] for quantile in ("p50", "p95"))
    (line,) = axis.plot(places, medians, style, label=f"{name}, median to p95")
    axis.fill_between(places, medians, highs, color=line.get_color(), alpha=0.2)
    return line.get_color()


def _by_streams(axis: Axes, streams: Sequence[int]) -> None:
    axis.set(xlabel="streams", xscale="log")
    axis.set_xticks(streams, minor=False)
    axis.xaxis.set_major_formatter("{x:.0f}")
    axis.minorticks_off()
    axis.grid(alpha=0.3)


def _by_rate(axis: Axes, report: Report) -> None:
    axis.set(xlabel=f"requests a second ({report['results'][0]['load']['spacing']})")
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)


def _finish(figure: Figure, report: Report, out: Path) -> None:
    """With the machine's name above it."""
    machine = report["environment"]
    cpu = f"{machine['cores']} cores of {machine['cpu']}, {machine['cpu_path']}"
    figure.suptitle(f"{cpu}, commit {machine['commit'][:10]}", fontsize=9)
    figure.savefig(out, dpi=150)
    pyplot.close(figure)
