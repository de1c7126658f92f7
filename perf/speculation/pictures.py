"""Rows as pictures: speed and tokens per step by method, accuracy against speed, tolerance, draft lengths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # writes files, needs no screen
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from perf.speculation.bench import Row
from perf.speculation.methods import Talker
from perf.speculation.plan import HEADS, MORE_HEADS, Part

_DPI = 120


def draw_all(rows: Sequence[Row], out: Path) -> list[Path]:
    """One PNG for each picture that has rows, beside the report `out`."""
    shipped = [row for row in rows if row.talker == Talker.SHIPPED]
    made = []
    for name, draw in _PICTURES.items():
        figure = draw(shipped)
        if figure is not None:
            path = out.with_name(f"{out.stem}_{name}.png")
            path.parent.mkdir(parents=True, exist_ok=True)
            figure.savefig(path, dpi=_DPI)
            pyplot.close(figure)
            made.append(path)
    return made


def _methods(rows: Sequence[Row]) -> Figure | None:
    """Tokens per step and speed-up of each method, by streams."""
    many = {row.title for row in rows if row.streams > 1 and row.part not in (Part.NODES, Part.PLAIN)}
    titles = [title for title in dict.fromkeys(row.title for row in rows) if title in many]
    if not titles:
        return None
    figure, axes = pyplot.subplots(
        1, 2, figsize=(11, 1 + 0.5 * len(titles)), sharey=True, layout="constrained"
    )
    every = sorted({row.streams for row in rows if row.title in many})
    thickness = 0.8 / len(every)
    for place, streams in enumerate(every):
        own = {row.title: row for row in rows if row.streams == streams and row.speedup is not None}
        there = [title for title in titles if title in own]
        at = [titles.index(title) + place * thickness for title in there]
        for axis, value in zip(axes, (_committed, _speedup), strict=True):
            axis.barh(at, [value(own[title]) for title in there], thickness, label=f"{streams} streams")
    axes[0].set_yticks([index + 0.4 - thickness / 2 for index in range(len(titles))], titles)
    axes[0].invert_yaxis()
    for axis, label in zip(
        axes, ("tokens committed per step (A)", "speed-up over plain decoding, offline"), strict=True
    ):
        axis.axvline(1.0, color="grey", linewidth=0.8)
        _finish(axis, label, "")
    axes[1].legend()
    return figure


def _accuracy(rows: Sequence[Row]) -> Figure | None:
    """Word errors against speed, a line for each method whose leniency can be chosen."""
    lenient = (Part.HEADS, Part.MTP, Part.BIAS, Part.GROUPS)
    heard = [row for row in rows if row.streams == 1 and row.quality and row.speedup and row.part in lenient]
    lines: dict[tuple[str, str], list[Row]] = {}
    for row in heard:
        lines.setdefault((row.draft, row.verifier), []).append(row)
    if not lines:
        return None
    figure, axis = pyplot.subplots(figsize=(8, 5.5), layout="constrained")
    for (draft, verifier), own in lines.items():
        own.sort(key=_speedup)
        errors = [row.quality.difference for row in own if row.quality]
        lows = [row.quality.difference - row.quality.low for row in own if row.quality]
        highs = [row.quality.high - row.quality.difference for row in own if row.quality]
        label = f"{draft} + {verifier}"
        axis.errorbar(
            [_speedup(row) for row in own], errors, (lows, highs), fmt="o-", label=label, elinewidth=0.5
        )
    axis.axhline(0.0, color="grey", linewidth=0.8)
    _finish(
        axis, "speed-up over plain decoding, 1 stream, offline", "word errors less plain's, points (95 %)"
    )
    axis.legend(fontsize=8)
    return figure


def _tolerance(rows: Sequence[Row]) -> Figure | None:
    """Speed-up and tokens per step by tolerance, and speed-up by nodes."""
    own = [row for row in rows if row.verifier == "tolerance" and row.streams == 1]
    by_tau = [row for row in own if row.part == Part.HEADS]
    by_nodes = [row for row in own if row.part == Part.NODES]
    if not by_tau or not by_nodes:
        return None
    figure, axes = pyplot.subplots(1, 3, figsize=(12, 3.8), layout="constrained")
    panels: tuple[tuple[Sequence[Row], str, Callable[[Row], float], str], ...] = (
        (by_tau, "tolerance", _speedup, "speed-up, offline"),
        (by_tau, "tolerance", _committed, "tokens per step (A)"),
        (by_nodes, "nodes", _speedup, "speed-up, offline"),
    )
    for axis, (those, option, value, label) in zip(axes, panels, strict=True):
        for draft in (HEADS, MORE_HEADS):
            line = sorted((row for row in those if row.draft == draft), key=lambda row: row.options[option])
            if not line:
                continue
            axis.plot([row.options[option] for row in line], list(map(value, line)), "o-", label=draft)
        axis.axhline(1.0, color="grey", linewidth=0.8)
        _finish(axis, option, label)
        axis.legend()
    return figure


def _length(rows: Sequence[Row]) -> Figure | None:
    """Speed-up by the length of the draft."""
    own = sorted(
        (row for row in rows if row.part == Part.LENGTH), key=lambda row: row.options["draft_length"]
    )
    if not own:
        return None
    figure, axis = pyplot.subplots(figsize=(5, 3.8), layout="constrained")
    lengths = [row.options["draft_length"] for row in own]
    for value, label in ((_speedup, "speed-up, offline"), (_committed, "tokens per step (A)")):
        axis.plot(lengths, [value(row) for row in own], "o-", label=label)
    axis.axhline(1.0, color="grey", linewidth=0.8)
    _finish(axis, "tokens drafted", own[0].draft + " + groups, 1 stream")
    axis.legend()
    return figure


def _speedup(row: Row) -> float:
    return float("nan") if row.speedup is None else row.speedup


def _committed(row: Row) -> float:
    return float("nan") if row.committed_per_step is None else row.committed_per_step


def _finish(axis: Axes, below: str, beside: str) -> None:
    axis.set(xlabel=below, ylabel=beside)
    axis.grid(alpha=0.3)


_PICTURES = {"methods": _methods, "accuracy": _accuracy, "tolerance": _tolerance, "length": _length}
