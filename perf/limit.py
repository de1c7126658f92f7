"""`python -m perf.limit`: what counted operations allow on this machine, and how far the server is from that.

Multiplications of a second of speech are counted from the shapes of the shipped weights, drafts left
out. What a core makes of them is measured in the talker's own products: a prompt of many rows at once,
which is the best that they do, and plain steps of 16 streams and of one. The rest is attention, tables,
draws, Python, Triton's hops and what models wait for each other.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median

import torch
from talkahead.backbone.thread_choice import most_threads
from talkahead.draft_training.own_speech import Talker
from talkahead.speculation.rows import Rows
from talkahead.speculation.token_tree import TokenTree
from talkahead.speech_format import SpeechFormat
from talkahead.weights import load_float32
from torch import Tensor

from instruments import report
from instruments.environment import REPOSITORY, ROOT, Environment
from perf.level import figures
from perf.talker.prompts import text_prompts

_LONG_PROMPT, _SPOKEN, _STREAMS = 480, 200, 16
"""Rows that are multiplied at once; positions after a stream amid its speech."""
_TABLES = ("embed_tokens", "prosody", "symbols", "voices")
_REPEATS = 30


@dataclass(frozen=True)
class Counted:
    """Multiplications, and what a core makes of them a second, in billions.

    Args:
        talker, attention, codec: of a second of speech.
        prompt: of a request, encoder and talker.
        best: in a prompt of many rows.
        step_of_many, step_of_one: in plain steps.
    """

    talker: float
    attention: float
    codec: float
    prompt: float
    best: float
    step_of_many: float
    step_of_one: float
    cores: int

    def most(self, audio_s: float) -> float:
        """Seconds of speech a second, of requests for so much."""
        a_second = self.talker + self.attention + self.codec + self.prompt / audio_s
        return self.cores * self.best / a_second

    def rows(self, audio_s: float, spoken: float | None) -> list[dict[str, str]]:
        """Args: spoken: seconds of speech a second that the server reaches, where that was measured."""
        most = self.most(audio_s)
        told = {
            "talker, G multiplications a second of speech": f"{self.talker:.2f}",
            "its attention": f"{self.attention:.2f}",
            "codec": f"{self.codec:.2f}",
            f"prompt, a second of a request of {audio_s:.1f} s": f"{self.prompt / audio_s:.2f}",
            "G multiplications a second and core, of a prompt's rows": f"{self.best:.0f}",
            f"in steps of {_STREAMS} streams": f"{self.step_of_many:.0f}",
            "in steps of one": f"{self.step_of_one:.0f}",
            f"seconds of speech a second at most, {self.cores} cores": f"{most:.0f}",
            "requests a second at most": f"{most / audio_s:.0f}",
        }
        if spoken is not None:
            told["the server speaks"] = f"{spoken:.0f} s a second, {spoken / most:.0%} of that"
        return [{"": name, "figure": value} for name, value in told.items()]


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    environment = Environment.record(REPOSITORY)
    torch.set_num_threads(1)
    counted = count(options.repeats)
    audio_s, spoken = _of_load(options.results)
    print(report.markdown(counted.rows(audio_s, spoken)))
    settings = {"audio_s": audio_s, "spoken": spoken}
    report.save(options.out, "limit", environment, settings, [counted])
    return 0


def count(repeats: int) -> Counted:
    """Of the shipped weights, as they are served."""
    speech = SpeechFormat.read(REPOSITORY / "vocoder" / "1")
    tokens_per_s = speech.frames_per_s * speech.steps_per_frame
    talker = Talker.serving(REPOSITORY / "talker" / "1")
    config, head = talker.config, talker.state["lm_head.weight"].numel()
    layers = _products(talker.state) - head
    seen = 2 * config.num_hidden_layers * config.num_attention_heads * config.head_dim
    rows = mean(len(prompt) for prompt in text_prompts(REPOSITORY))
    encoder = _products(load_float32(REPOSITORY / "encoder" / "1" / "encoder.safetensors"))
    codec = _products(load_float32(REPOSITORY / "vocoder" / "1" / "codec.safetensors"))
    decoder = talker.decoder(_LONG_PROMPT + _SPOKEN, slots=_STREAMS)

    def prefill(slots: int, length: int) -> Callable[[], object]:
        prompts = torch.randn(slots, length, decoder.hidden_size)
        return lambda: decoder.prefill(list(range(slots)), prompts, [length] * slots)

    def step(streams: int) -> Callable[[], object]:
        prefill(streams, _SPOKEN)()
        roots = TokenTree(torch.zeros(streams, 1, 1, dtype=torch.int64))
        slots = Rows.of(range(streams), decoder.device)
        return lambda: decoder.score(roots, slots)

    return Counted(
        talker=tokens_per_s * (layers + head) / 1e9,
        attention=tokens_per_s * seen * _SPOKEN / 1e9,
        codec=speech.frames_per_s * codec / 1e9,
        prompt=rows * (encoder + layers) / 1e9,
        best=_LONG_PROMPT * layers / _seconds(prefill(1, _LONG_PROMPT), repeats) / 1e9,
        step_of_many=_STREAMS * (layers + head) / _seconds(step(_STREAMS), repeats) / 1e9,
        step_of_one=(layers + head) / _seconds(step(1), repeats) / 1e9,
        cores=most_threads(),
    )


def _products(state: Mapping[str, Tensor]) -> int:
    """Multiplications of a row by all matrices; tables are looked up."""
    return sum(
        math.prod(state[name].shape)
        for name in state
        if state[name].ndim > 1 and not any(table in name for table in _TABLES)
    )


def _seconds(call: Callable[[], object], repeats: int) -> float:
    samples = []
    for _ in range(repeats + 3):
        before = time.perf_counter()
        call()
        samples.append(time.perf_counter() - before)
    return median(samples[3:])


def _of_load(results: Path) -> tuple[float, float | None]:
    """Seconds of a mixed request, and the most speech a second that closed streams were spoken."""
    found = report.find(results, "load")
    if found is None:
        sys.exit(f"error: {results} has no load.json, which tells how long requests are: python -m perf.load")
    levels = json.loads(found.read_text(encoding="utf-8"))["results"]
    audio = [seconds for level in levels for seconds in figures(level, "audio_s")]
    latency = report.find(results, "latency")
    if latency is None:
        return mean(audio), None
    cells = json.loads(latency.read_text(encoding="utf-8"))["results"]
    return mean(audio), max(one["audio_s_per_s"] for one in cells if one["mode"] == "closed")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m perf.limit", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--repeats", type=int, default=_REPEATS, help="(%(default)s)")
    add("--results", type=Path, default=ROOT / "perf" / "results", help="of load and latency (perf/results)")
    add("--out", type=Path, default=Path("perf/results/limit.json"), help="(%(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
