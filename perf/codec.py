"""`python -m perf.codec`: what windows of half a second cost the codecs of several vocoders, by turns.

One thread decodes; a round is one pass of every codec at every number of windows, so that what else the
machine does meets all alike.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from talkahead.families.contracts import AUTO, Codec, CodecWindow
from talkahead.families.registry import load_family
from talkahead.speech_format import SpeechFormat

from instruments import report
from instruments.environment import Environment

WINDOW_S = 0.5
WINDOWS = (1, 4, 16)
_WARM_UPS = 5


@dataclass(frozen=True)
class Cost:
    """Passes of so many windows: milliseconds of each, in the order of the rounds, and the audio of one."""

    codec: str
    windows: int
    audio_s: float
    pass_ms: list[float]

    @property
    def ms_per_s(self) -> float:
        """Median, for each second of audio."""
        return float(np.median(self.pass_ms)) / self.audio_s


class Passes:
    """Windows in the middle of utterances, of codes drawn at random."""

    def __init__(self, folder: Path, engine: str = AUTO) -> None:
        self._speech = SpeechFormat.read(folder)
        self._codec: Codec = load_family(self._speech.family).codec(folder, torch.device("cpu"), engine)
        context, new, ahead = self._sizes()
        draw = np.random.default_rng(0)
        first, later = max(context, 1), context + new + ahead
        begin, go_on = (
            np.stack([draw.integers(0, size, frames) for size in self._speech.codebooks], axis=1)
            for frames in (first + ahead, later)
        )
        (begun,) = self._codec.decode([CodecWindow(begin, 0, first, ahead, 0)], [None])
        self._window, self._carry = CodecWindow(go_on, context, new, ahead, first), begun.carry
        self.audio_s = new / self._speech.frames_per_s

    def _sizes(self) -> tuple[int, int, int]:
        """Frames of context, new ones, look-ahead."""
        speech = self._speech
        return speech.context_frames, speech.frames(WINDOW_S), speech.lookahead_frames

    def milliseconds(self, windows: int) -> float:
        began = time.perf_counter()
        self._codec.decode([self._window] * windows, [self._carry] * windows)
        return (time.perf_counter() - began) * 1e3


def measure(folders: Sequence[Path], engines: Sequence[str], rounds: int) -> list[Cost]:
    codecs = {
        _name(folder, engine, engines): Passes(folder, engine) for folder in folders for engine in engines
    }
    costs = [
        Cost(name, windows, windows * passes.audio_s, [])
        for name, passes in codecs.items()
        for windows in WINDOWS
    ]
    for turn in range(_WARM_UPS + rounds):
        for cost in costs:
            taken = codecs[cost.codec].milliseconds(cost.windows)
            if turn >= _WARM_UPS:
                cost.pass_ms.append(taken)
    return costs


def _name(folder: Path, engine: str, engines: Sequence[str]) -> str:
    return f"{folder} by {engine}" if len(engines) > 1 else str(folder)


def table(costs: Sequence[Cost]) -> str:
    """Milliseconds per second of audio, and how much of the first codec's they are."""
    first = {cost.windows: cost.ms_per_s for cost in costs if cost.codec == costs[0].codec}
    return report.markdown(
        [
            {
                "codec": cost.codec,
                "windows a pass": str(cost.windows),
                "ms per s of audio": f"{cost.ms_per_s:.2f}",
                "of the first's": f"{cost.ms_per_s / first[cost.windows]:.2f}",
            }
            for cost in costs
        ]
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="perf.codec", description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "folders", type=Path, nargs="*", help="version folders of vocoders (the shipped one's)"
    )
    parser.add_argument("--engines", nargs="+", default=[AUTO], help="of each codec (%(default)s)")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--out", type=Path, default=Path("perf/results/codec.json"), help="(%(default)s)")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    environment = Environment.record()
    costs = measure(options.folders or [Path("model_repository/vocoder/1")], options.engines, options.rounds)
    print(table(costs))
    report.save(options.out, "codec", environment, {"rounds": options.rounds}, costs)


if __name__ == "__main__":
    main()
