"""What one replica was measured to cost: by `python -m perf.latency`, and beside two by `perf.replicas`."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

_RESULTS = Path(__file__).parents[2] / "perf" / "results"
MEASURED, SPREAD = _RESULTS / "latency.json", _RESULTS / "replicas-spread-haproxy.json"
CLOSED, PLAYING = "closed", "playing"
"""How listeners came: the next request at once, or when the last one has played."""


@dataclass(frozen=True)
class Cell:
    """One measured load: so many listeners of a kind.

    Args:
        replicas: which they shared.
        frames: of each utterance that was spoken, slice by slice.
        slice_s: how long new requests were made in each.
        audio_s_per_s: over all slices, until the last utterance of each had ended.
    """

    replicas: int
    mode: str
    listeners: int
    frames: tuple[tuple[int, ...], ...]
    slice_s: float
    audio_s_per_s: float
    first_chunk_p50_s: float

    @classmethod
    def read(cls, result: dict[str, Any], slice_s: float, replicas: int = 1) -> Self:
        said = [[one["stats"] for one in part["utterances"] if one["stats"]] for part in result["parts"]]
        return cls(
            replicas=replicas,
            mode=result["mode"],
            listeners=result["streams"],
            frames=tuple(tuple(stats["frames"] for stats in part) for part in said),
            slice_s=slice_s,
            audio_s_per_s=result["audio_s_per_s"],
            first_chunk_p50_s=1e-3 * result["first_chunk_ms"]["p50"],
        )


@dataclass(frozen=True)
class Costs:
    """Seconds of a replica's parts. A step of n streams takes step_s + n row_s, a pass of n windows likewise.

    Args:
        before_s: frontend, encoder and the ways between processes, of each request.
        rows, tokens: tokens that a step adds to each stream, by streams in it.
    """

    before_s: float
    prefill_s: float
    step_s: float
    row_s: float
    pass_s: float
    window_s: float
    rows: tuple[float, ...]
    tokens: tuple[float, ...]
    frames_per_s: float

    @property
    def widest(self) -> int:
        """Streams of a step: on average, the fullest that were measured had so many."""
        return round(self.rows[-1])

    def tokens_a_step(self, rows: int) -> float:
        return float(np.interp(rows, self.rows, self.tokens))

    def beginning(self, later_s: float) -> Costs:
        """With so much more before the talker."""
        return replace(self, before_s=self.before_s + later_s)


def read(path: Path = MEASURED) -> tuple[Costs, list[Cell]]:
    """The costs, from the loads of closed listeners, and all loads."""
    report = json.loads(path.read_text(encoding="utf-8"))
    own = [one for one in report["results"] if one["configuration"] == report["results"][0]["configuration"]]
    slice_s = report["settings"]["seconds"] / report["settings"]["slices"]
    return _costs([one for one in own if one["mode"] == CLOSED]), [Cell.read(one, slice_s) for one in own]


def read_spread(path: Path = SPREAD) -> tuple[Costs, list[Cell]]:
    """The costs of one replica on half of the cores, and all loads of one and of two."""
    report = json.loads(path.read_text(encoding="utf-8"))
    slice_s = report["settings"]["load_s"] / report["settings"]["slices"]
    alone = [one["cell"] for one in report["results"] if one["replicas"] == 1]
    cells = [Cell.read(one["cell"], slice_s, one["replicas"]) for one in report["results"]]
    return _costs([one for one in alone if one["mode"] == CLOSED]), cells


def _costs(closed: list[dict[str, Any]]) -> Costs:
    frames_per_s = _frames_per_s(closed[0])
    rows, tokens, windows = [], [], []
    for one in closed:
        frames = one["audio_s_per_s"] * one["wall_s"] * frames_per_s
        tokens.append(one["tokens_per_step"])
        rows.append(frames / _stage(one, "step")["count"] / one["tokens_per_step"])
        sent = one["first_chunk_ms"]["count"] + one["gap_ms"]["count"]
        windows.append(sent / _stage(one, "vocoder")["count"])
    row_s, step_s = np.polyfit(rows, [_mean_s(one, "step") for one in closed], 1)
    window_s, pass_s = np.polyfit(windows, [_mean_s(one, "vocoder") for one in closed], 1)
    alone, fullest = closed[0], closed[-1]
    # Where the talker is never idle, what is neither step nor prefill goes with the streams that it has.
    busy_s = sum(_stage(fullest, stage)["total_s"] for stage in ("step", "prefill"))
    between_s = (fullest["wall_s"] - busy_s) / _stage(fullest, "step")["count"]
    return Costs(
        before_s=_mean_s(alone, "frontend") + _mean_s(alone, "encoder"),
        prefill_s=_mean_s(alone, "prefill"),
        step_s=float(step_s),
        row_s=float(row_s) + between_s / rows[-1],
        pass_s=float(pass_s),
        window_s=float(window_s),
        rows=tuple(rows),
        tokens=tuple(tokens),
        frames_per_s=frames_per_s,
    )


def _frames_per_s(result: dict[str, Any]) -> float:
    said = [one for part in result["parts"] for one in part["utterances"] if one["stats"]]
    frames = sum(one["stats"]["frames"] for one in said)
    return float(round(frames / sum(one["figures"]["audio_s"] for one in said)))


def _stage(result: dict[str, Any], name: str) -> dict[str, Any]:
    return next(stage for stage in result["stages"] if stage["name"] == name)


def _mean_s(result: dict[str, Any], name: str) -> float:
    return 1e-3 * float(_stage(result, name)["mean_ms"])
