"""Seconds of a core that one replica takes for its work, measured by `python -m perf.replicas spread`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from scipy.optimize import nnls

_RESULTS, _REPORT = Path(__file__).parents[2] / "perf" / "results", "replicas-spread-haproxy.json"
_EARLIER = _RESULTS / "earlier" / _REPORT
MEASURED = _RESULTS / _REPORT if (_RESULTS / _REPORT).exists() else _EARLIER
"""With the shipped weights, or with those before them."""
CLOSED, PLAYING = "closed", "playing"
"""How listeners came: the next request at once, or when the last one has played."""


@dataclass(frozen=True)
class Cell:
    """One measured load: so many listeners of a kind.

    Args:
        replicas: which they shared, on the same cores.
        frames: of each utterance that was spoken, slice by slice.
        slice_s: how long new requests were made in each.
        audio_s_per_s: until the first listener of a slice had heard all; then the load is no longer full.
    """

    replicas: int
    mode: str
    listeners: int
    frames: tuple[tuple[int, ...], ...]
    slice_s: float
    audio_s_per_s: float
    first_chunk_p50_s: float

    @classmethod
    def read(cls, result: dict[str, Any]) -> Self:
        cell = result["cell"]
        said = [[one["stats"] for one in part["utterances"] if one["stats"]] for part in cell["parts"]]
        return cls(
            replicas=result["replicas"],
            mode=cell["mode"],
            listeners=cell["streams"],
            frames=tuple(tuple(stats["frames"] for stats in part) for part in said),
            slice_s=result["slice_s"],
            audio_s_per_s=cell["audio_s_per_s"],
            first_chunk_p50_s=1e-3 * cell["first_chunk_ms"]["p50"],
        )


@dataclass(frozen=True)
class Costs:
    """Seconds of a core. A step of n streams takes step_s + n row_s, a pass of n windows pass_s + n window_s.

    Args:
        cores: of the machine that was measured, for replicas, proxy and listeners together.
        idle_s: of each request, in which nobody works for it: ways between processes.
        request_s: of frontend and encoder.
        prefill_s, ending_s: of the talker for each request besides steps, before them and after them.
        chunk_s: of Triton, the proxy and the listener, of each chunk.
        after_s: from the last chunk until the next request is on its way.
        rows, tokens: tokens that a step adds to each stream, by streams in it.
        speaking, widths: streams in a step, by streams that speak: some wait for the codec.
    """

    cores: int
    idle_s: float
    after_s: float
    request_s: float
    prefill_s: float
    ending_s: float
    step_s: float
    row_s: float
    pass_s: float
    window_s: float
    chunk_s: float
    rows: tuple[float, ...]
    tokens: tuple[float, ...]
    speaking: tuple[int, ...]
    widths: tuple[float, ...]
    frames_per_s: float

    def width(self, speaking: int) -> int:
        """Streams of a step."""
        return round(float(np.interp(speaking, self.speaking, self.widths)))

    def tokens_a_step(self, rows: int) -> float:
        return float(np.interp(rows, self.rows, self.tokens))

    def beginning(self, later_s: float) -> Costs:
        """With the first chunk so much later; sooner: the talker does more of a request's work at its end."""
        if later_s >= 0:
            return replace(self, idle_s=later_s)
        return replace(self, prefill_s=self.prefill_s + later_s, ending_s=self.ending_s - later_s)

    def ending(self, after_s: float) -> Costs:
        """With so much time after each utterance in which nobody works."""
        return replace(self, after_s=after_s)


def read(path: Path = MEASURED) -> tuple[Costs, list[Cell]]:
    """The costs, from the loads of one replica, and all loads, those of one first."""
    report = json.loads(path.read_text(encoding="utf-8"))
    results = sorted(report["results"], key=lambda one: int(one["replicas"]))
    alone = [one for one in results if one["replicas"] == 1]
    return _costs(alone, report["environment"]["cores"]), [Cell.read(one) for one in results]


def _costs(alone: Sequence[dict[str, Any]], cores: int) -> Costs:
    works = sorted((one["work"] for one in alone), key=_width)
    closed = sorted(
        (one for one in alone if one["cell"]["mode"] == CLOSED), key=lambda one: int(one["cell"]["streams"])
    )
    spent = [work["cpu_s"] for work in works]
    passes = [work["passes"] for work in works]
    step_s, row_s, prefill_s = _shares(
        [one["talker"] for one in spent],
        [(count["step"], work["rows"], count["encoder"]) for count, work in zip(passes, works, strict=True)],
    )
    pass_s, window_s = _shares(
        [one["vocoder"] for one in spent],
        [(count["vocoder"], work["windows"]) for count, work in zip(passes, works, strict=True)],
    )
    (request_s,) = _shares(
        [one["frontend"] + one["encoder"] for one in spent], [(count["encoder"],) for count in passes]
    )
    (chunk_s,) = _shares([one["rest"] for one in spent], [(work["windows"],) for work in works])
    return Costs(
        cores=cores,
        idle_s=0.0,
        after_s=0.0,
        request_s=request_s,
        prefill_s=prefill_s,
        ending_s=0.0,
        step_s=step_s,
        row_s=row_s,
        pass_s=pass_s,
        window_s=window_s,
        chunk_s=chunk_s,
        rows=tuple(map(_width, works)),
        tokens=tuple(work["tokens"] / work["rows"] for work in works),
        speaking=tuple(one["cell"]["streams"] for one in closed),
        widths=tuple(_width(one["work"]) for one in closed),
        frames_per_s=_frames_per_s(closed[0]["cell"]),
    )


def _width(work: dict[str, Any]) -> float:
    """Streams of a step."""
    return float(work["rows"] / work["passes"]["step"])


def _shares(spent_s: Sequence[float], counts: Sequence[tuple[int, ...]]) -> tuple[float, ...]:
    """What each of several things takes, so that all loads are explained as well as can be."""
    weights = 1 / np.asarray(spent_s)
    found, _ = nnls(np.asarray(counts) * weights[:, None], np.ones(len(weights)))
    return tuple(map(float, found))


def _frames_per_s(cell: dict[str, Any]) -> float:
    said = [one for part in cell["parts"] for one in part["utterances"] if one["stats"]]
    frames = sum(one["stats"]["frames"] for one in said)
    return float(round(frames / sum(one["figures"]["audio_s"] for one in said)))
