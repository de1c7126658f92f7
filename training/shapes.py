"""`python -m training.shapes --trials DIR...`: which shape of talker speculation likes.

Joins `training/results/costing.json` with each checkpoint's `draft_trial.json` (`training.draft_trial`) and
`trial.json` (word errors and held-out nats, by whoever trained it), keeps them in one JSON, draws one
picture, and fills the tables of `training/SHAPES.md` between their marks; the words around them are written.

Expected speed-up = A / cost: A tokens a step over the cost of that step and its drafts, in plain steps.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log
from pathlib import Path
from typing import Any, Self

import matplotlib

matplotlib.use("Agg")  # writes files, needs no screen
import numpy as np
from matplotlib import pyplot

from instruments import report
from instruments.environment import ROOT, Environment
from instruments.talker_shape import Shape
from training.draft_trial import NAME, TOLERANCE

STREAMS = (1, 4, 16)
_DRAWS = {"match": 1, f"tolerance {TOLERANCE}": TOLERANCE}
"""Draws after each node, by verifier."""


@dataclass(frozen=True)
class Costing:
    """Milliseconds by (shape, part, streams, size), from `perf.costing`'s report."""

    ms: Mapping[tuple[str, str, int, int], float]
    parameters: Mapping[str, int]

    @classmethod
    def read(cls, path: Path) -> Self:
        costs = json.loads(path.read_text(encoding="utf-8"))["results"]
        return cls(
            {(one["shape"], one["part"], one["rows"], one["size"]): one["p50_ms"] for one in costs},
            {one["shape"]: one["parameters"] for one in costs},
        )

    def step(self, shape: str, streams: int, nodes: float, draws: int = 1) -> float:
        """A step of `nodes` nodes with `draws` draws after each; straight lines between measured sizes."""
        sizes = sorted(
            size for own, part, rows, size in self.ms if (own, part, rows) == (shape, "step", streams)
        )
        costs = [
            self.ms[shape, "step", streams, size] + draws * self.ms[shape, "draw", streams, size]
            for size in sizes
        ]
        return float(np.interp(nodes, sizes, costs))

    @property
    def num_heads(self) -> int:
        """So many were costed together."""
        (size,) = {size for _, part, _, size in self.ms if part == "heads"}
        return size

    def heads(self, shape: str, streams: int) -> float:
        return self.ms[shape, "heads", streams, self.num_heads]

    def draft(self, shape: str, streams: int, layers: int) -> float:
        """One token of a draft of few layers, and its draw."""
        return self.ms[shape, "draft", streams, layers] + self.ms[shape, "draw", streams, 1]


@dataclass(frozen=True)
class Expectation:
    """One way to speculate with one shape.

    Args:
        how: drafter and verifier.
        size: nodes of the tree, or length of the draft.
        committed: A, tokens per step.
        cost: of the step and its drafts, in plain steps.
    """

    shape: str
    streams: int
    how: str
    size: int
    committed: float
    cost: float
    plain_frames_per_s: float

    @property
    def speedup(self) -> float:
        return self.committed / self.cost

    @property
    def frames_per_s(self) -> float:
        return self.speedup * self.plain_frames_per_s


@dataclass(frozen=True)
class Candidate:
    """A trained shape: what was measured of it (`trial.json` and `draft_trial.json`)."""

    name: str
    shape: str
    trained: Mapping[str, Any]
    drafts: Mapping[str, Any]

    @classmethod
    def read(cls, folder: Path) -> Self:
        drafts = json.loads((folder / NAME).read_text(encoding="utf-8"))["results"][0]
        trained = folder / "trial.json"
        return cls(
            folder.name,
            _shape(drafts["shape"]),
            json.loads(trained.read_text(encoding="utf-8")) if trained.exists() else {},
            drafts,
        )

    @property
    def label(self) -> str:
        return "x".join(self.shape.split(":")[0].split("x")[:3])

    def expectations(self, costing: Costing) -> Iterator[Expectation]:
        """Every tree and every draft that was tried, at every number of streams."""
        for streams in STREAMS:
            plain = costing.step(self.shape, streams, 1)
            frames_per_s = 1e3 * streams / plain
            for tree in self.drafts["trees"]:
                verifier, nodes = tree["verifier"], tree["nodes"]
                cost = costing.step(self.shape, streams, nodes, _DRAWS[verifier])
                cost = (cost + costing.heads(self.shape, streams)) / plain
                how = f"heads, {verifier}"
                committed = tree["committed_per_step"]
                yield Expectation(self.shape, streams, how, nodes, committed, cost, frames_per_s)
            for one in self.drafts["cuts"]:
                length, layers = one["length"], one["layers"]
                cost = costing.step(self.shape, streams, length + 1)
                cost = (cost + length * costing.draft(self.shape, streams, layers)) / plain
                how, committed = f"draft of {layers}, match", one["committed_per_step"]
                yield Expectation(self.shape, streams, how, length, committed, cost, frames_per_s)


def _shape(config: Mapping[str, Any]) -> str:
    return str(
        Shape(
            config["num_hidden_layers"],
            config["hidden_size"],
            config["intermediate_size"],
            config["head_dim"],
            config["vocab_size"],
        )
    )


def best(expectations: Sequence[Expectation]) -> dict[tuple[str, int, str], Expectation]:
    """The size with the highest expected speed-up, by shape, streams and how."""
    found: dict[tuple[str, int, str], Expectation] = {}
    for one in expectations:
        key = (one.shape, one.streams, one.how)
        if key not in found or one.speedup > found[key].speedup:
            found[key] = one
    return found


# Tables


def quality_table(candidates: Sequence[Candidate], costing: Costing) -> str:
    rows = []
    for one in candidates:
        nats = one.trained.get("held_out_nats")
        errors = one.trained.get("word_errors_percent")
        steps = [costing.step(one.shape, streams, 1) for streams in STREAMS]
        rows.append(
            {
                "shape": one.label,
                "parameters": f"{costing.parameters[one.shape] / 1e6:.1f} M",
                "held-out nats (bits)": "–" if nats is None else f"{nats:.3f} ({nats / log(2):.2f})",
                "bits as drawn": f"{one.drafts['bits_per_frame']:.2f}",
                "word errors": "–" if errors is None else f"{errors:.1f} %",
                "step, 1 / 4 / 16 streams": " / ".join(f"{step:.2f}" for step in steps) + " ms",
                "frames/s": " / ".join(
                    f"{1e3 * streams / step:,.0f}" for streams, step in zip(STREAMS, steps, strict=True)
                ),
            }
        )
    return report.markdown(rows)


def speculation_table(candidates: Sequence[Candidate], expectations: Sequence[Expectation]) -> str:
    chosen = best(expectations)
    ways = list(dict.fromkeys(one.how for one in expectations))
    rows = []
    for candidate in candidates:
        for how in ways:
            row = {"shape": candidate.label, "drafter, verifier": how}
            for streams in STREAMS:
                one = chosen[candidate.shape, streams, how]
                row[f"{streams} stream{'s' * (streams > 1)}: A / cost (size), frames/s"] = (
                    f"**{one.speedup:.2f}** = {one.committed:.2f} / {one.cost:.2f} ({one.size}), "
                    f"{one.frames_per_s:,.0f}"
                )
            rows.append(row)
    return report.markdown(rows)


def heads_table(candidates: Sequence[Candidate]) -> str:
    """A by nodes: what the drafts reach, whatever a step costs."""
    rows = []
    for candidate in candidates:
        for verifier in _DRAWS:
            trees = [tree for tree in candidate.drafts["trees"] if tree["verifier"] == verifier]
            rows.append(
                {
                    "shape": candidate.label,
                    "verifier": verifier,
                    **{f"{tree['nodes']} nodes": f"{tree['committed_per_step']:.2f}" for tree in trees},
                    "hits of the heads": " ".join(f"{100 * best:.0f}" for best, _ in candidate.drafts["hits"])
                    + " %",
                }
            )
    return report.markdown(rows)


def cost_table(costing: Costing, streams: int) -> str:
    """Every costed shape, in its own plain steps."""
    nodes = (2, 4, 8, 16, 32, 64)
    rows = []
    for shape in costing.parameters:
        plain = costing.step(shape, streams, 1)
        rows.append(
            {
                "layers x width x intermediate x head: vocabulary": shape,
                "parameters": f"{costing.parameters[shape] / 1e6:.1f} M",
                "plain step": f"{plain:.2f} ms",
                **{f"{size} nodes": f"{costing.step(shape, streams, size) / plain:.2f}" for size in nodes},
                f"{costing.num_heads} heads": f"{costing.heads(shape, streams) / plain:.2f}",
                **{
                    f"draft of {layers}": f"{costing.draft(shape, streams, layers) / plain:.2f}"
                    for layers in (1, 2, 3)
                },
            }
        )
    return report.markdown(rows)


def draw_picture(candidates: Sequence[Candidate], expectations: Sequence[Expectation], path: Path) -> None:
    """Expected speed-up by nodes at 1 and 16 streams; and speed against word errors, where they are known."""
    figure, axes = pyplot.subplots(1, 3, figsize=(13, 4), layout="constrained")
    how = f"heads, tolerance {TOLERANCE}"
    for axis, streams in zip(axes, (1, 16), strict=False):
        for candidate in candidates:
            own = _of(expectations, candidate, streams)
            trees = [one for one in own if one.how == how]
            axis.plot(
                [one.size for one in trees], [one.speedup for one in trees], "o-", label=candidate.label
            )
        axis.axhline(1.0, color="grey", linewidth=0.8)
        axis.set(title=f"{how}, {streams} at once", xlabel="nodes", ylabel="expected speed-up", xscale="log")
        axis.set_xticks([2, 4, 8, 16, 32, 64], minor=False)
        axis.xaxis.set_major_formatter("{x:.0f}")
        axis.minorticks_off()
    for candidate in candidates:
        errors = candidate.trained.get("word_errors_percent", float("nan"))
        own = _of(expectations, candidate, 1)
        fastest = max(one.frames_per_s for one in own)
        speeds = (own[0].plain_frames_per_s, fastest)
        axes[2].plot([errors, errors], speeds, "o-", markevery=[0], label=candidate.label)
    axes[2].set(title="1 stream: from plain (dot) to the best draft", xlabel="word errors, %")
    axes[2].set_ylabel("frames/s of one core")
    for axis in axes:
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
        axis.legend()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _of(expectations: Sequence[Expectation], candidate: Candidate, streams: int) -> list[Expectation]:
    return [one for one in expectations if (one.shape, one.streams) == (candidate.shape, streams)]


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    environment = Environment.record()
    costing = Costing.read(options.costing)
    candidates = [Candidate.read(folder) for folder in options.trials]
    for one in candidates:
        if one.shape not in costing.parameters:
            costed = ", ".join(costing.parameters)
            print(
                f"{one.shape} of {one.name} has no costs in {options.costing}, which holds {costed}; "
                "measure with: python -m perf.costing --shapes",
                file=sys.stderr,
            )
            return 1
    expectations = [one for candidate in candidates for one in candidate.expectations(costing)]
    report.save(
        options.out, "shapes", environment, {"costing": str(options.costing)}, [*candidates, *expectations]
    )
    tables = {
        "quality": quality_table(candidates, costing),
        "speculation": speculation_table(candidates, expectations),
        "heads": heads_table(candidates),
        "costs at 1": cost_table(costing, 1),
        "costs at 16": cost_table(costing, 16),
    }
    options.page.write_text(report.fill(options.page.read_text(encoding="utf-8"), tables), encoding="utf-8")
    draw_picture(candidates, expectations, options.page.with_suffix(".png"))
    print("\n\n".join(tables.values()))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m training.shapes", description=__doc__)
    add = parser.add_argument
    add("--trials", type=Path, nargs="+", required=True, metavar="DIR", help="checkpoints that were tried")
    add("--costing", type=Path, default=ROOT / "training/results/costing.json", help="(%(default)s)")
    add("--out", type=Path, default=ROOT / "training/results/shapes.json", help="(%(default)s)")
    add(
        "--page", type=Path, default=ROOT / "training/SHAPES.md", help="whose tables are filled (%(default)s)"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
