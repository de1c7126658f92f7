"""`python -m perf.talker`: frames per second of the talker's engine beside transformers' `generate`.

Same weights, same prompts, same sampling, same threads, in one run, by turns. A batch starts together and the
clock runs until its last stream has ended, for both: prompts are prefilled, frames are drawn until the end of
speech, and only frames that a listener would hear count. `generate` runs a static batch, as it does.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from talkahead.audio.codec import CodecConfig
from talkahead.backbone.decoder_choice import DecoderChoice, load_decoder
from talkahead.backbone.llama import LlamaConfig, load_llama
from talkahead.backbone.text_encoder import TextEncoder
from talkahead.config import RequestOptions
from talkahead.engine.engine_config import EngineConfig
from talkahead.engine.requests import SegmentRequest, Window
from talkahead.engine.talker_engine import TalkerEngine
from talkahead.errors import TalkaheadError
from talkahead.text.frontend import TextFrontend
from talkahead.types import SegmentHeader
from transformers import LlamaForCausalLM
from transformers.utils.logging import disable_progress_bar

from instruments import report
from instruments.environment import ROOT, Environment
from perf.texts import TEXTS

Prompt = npt.NDArray[np.float32]
"""[P, D]"""

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class Run:
    """One batch, spoken once."""

    frames: int
    seconds: float

    @property
    def frames_per_s(self) -> float:
        return self.frames / self.seconds


class Talker(Protocol):
    """Speaks a batch of prompts together; returns the number of frames before each one's end."""

    def speak(self, prompts: Sequence[Prompt], options: RequestOptions, seed: int) -> int: ...
    def close(self) -> None: ...


class EngineTalker:
    """The engine as served, without Triton: windows are cut and dropped."""

    def __init__(
        self, repository: Path, num_streams: int, dtype: torch.dtype, decoder: DecoderChoice
    ) -> None:
        config, state = load_llama(repository / "talker" / "1")
        codec = CodecConfig.from_file(repository / "vocoder" / "1" / "codec.json")
        backbone = load_decoder(
            config,
            state,
            num_slots=num_streams,
            max_positions=config.max_position_embeddings,
            dtype=dtype,
            choice=decoder,
        )
        self._engine = TalkerEngine(backbone, EngineConfig(codec.context_frames, codec.lookahead_frames))
        self._streams = 0

    def speak(self, prompts: Sequence[Prompt], options: RequestOptions, seed: int) -> int:
        outlets = []
        for index, prompt in enumerate(prompts):
            self._streams += 1
            outlets.append(_FrameCounter())
            header = SegmentHeader(self._streams, 0, 1, 0, 0, seed=seed + index)
            self._engine.submit(SegmentRequest(header, prompt, options, "", outlets[-1]))
        return sum(outlet.frames.result() for outlet in outlets)

    def close(self) -> None:
        self._engine.close()


class _FrameCounter:
    """An outlet that counts new frames."""

    def __init__(self) -> None:
        self.frames: Future[int] = Future()
        self._count = 0

    def send(self, window: Window) -> None:
        self._count += window.header.new

    def close(self) -> None:
        self.frames.set_result(self._count)

    def fail(self, error: TalkaheadError) -> None:
        self.frames.set_exception(error)


class GenerateTalker:
    """`LlamaForCausalLM.generate` on prompt embeddings, padded on the left."""

    def __init__(self, repository: Path, dtype: torch.dtype) -> None:
        folder = repository / "talker" / "1"
        disable_progress_bar()  # type: ignore[no-untyped-call]
        # Its own annotations of `generate` do not fit its classes.
        self._model: Any = LlamaForCausalLM.from_pretrained(folder, dtype=dtype)
        self._eos = LlamaConfig.from_file(folder / "config.json").eos_token_id
        self._dtype = dtype

    @torch.inference_mode()
    def speak(self, prompts: Sequence[Prompt], options: RequestOptions, seed: int) -> int:
        torch.manual_seed(seed)
        longest = max(len(prompt) for prompt in prompts)
        rows = torch.zeros(len(prompts), longest, prompts[0].shape[1], dtype=self._dtype)
        mask = torch.zeros(len(prompts), longest, dtype=torch.int64)
        for index, prompt in enumerate(prompts):
            rows[index, longest - len(prompt) :] = torch.from_numpy(prompt)
            mask[index, longest - len(prompt) :] = 1
        tokens = self._model.generate(
            inputs_embeds=rows,
            attention_mask=mask,
            max_new_tokens=_max_frames(options),
            do_sample=options.temperature > 0,
            temperature=options.temperature or None,
            top_p=options.top_p,
            top_k=options.top_k,
            eos_token_id=self._eos,
            pad_token_id=self._eos,
        )
        return int((tokens != self._eos).sum())

    def close(self) -> None:
        return


@dataclass(frozen=True)
class Comparison:
    """One number of streams, one precision."""

    streams: int
    dtype: str
    engine_frames_per_s: float
    generate_frames_per_s: float
    """Medians over the repeats."""
    ratio: float
    """Median of the repeats' own ratios; a repeat runs both, one right after the other."""
    engine: list[Run]
    generate: list[Run]

    def row(self) -> dict[str, str]:
        return {
            "streams": str(self.streams),
            "precision": self.dtype,
            "engine": f"{self.engine_frames_per_s:.0f} frames/s",
            "generate": f"{self.generate_frames_per_s:.0f} frames/s",
            "ratio": f"{self.ratio:.2f}",
            "repeats": str(len(self.engine)),
        }


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    environment = Environment.record()
    torch.set_num_threads(options.threads)
    prompts = text_prompts(options.repository)
    spoken = RequestOptions(temperature=options.temperature, max_seconds=options.max_seconds)
    comparisons = []
    for dtype in options.dtypes:
        for streams in options.streams:
            print(f"{streams} streams, {dtype}", file=sys.stderr, flush=True)
            talkers = (
                EngineTalker(options.repository, streams, DTYPES[dtype], options.decoder),
                GenerateTalker(options.repository, DTYPES[dtype]),
            )
            comparisons.append(compare(talkers, prompts, spoken, streams, dtype, options.repeats))
    print(report.table([comparison.row() for comparison in comparisons]))
    settings = {
        "threads": options.threads,
        "decoder": options.decoder,
        "temperature": spoken.temperature,
        "top_p": spoken.top_p,
        "top_k": spoken.top_k,
        "max_frames": _max_frames(spoken),
    }
    report.save(options.out, "talker", environment, settings, comparisons)
    return 0


def compare(
    talkers: tuple[Talker, Talker],
    prompts: Sequence[Prompt],
    options: RequestOptions,
    streams: int,
    dtype: str,
    repeats: int,
) -> Comparison:
    """Runs engine and `generate` by turns on the same batches, after one batch each that nobody counts."""
    runs: tuple[list[Run], list[Run]] = ([], [])
    for repeat in range(-1, repeats):
        batch = [prompts[(repeat * streams + index) % len(prompts)] for index in range(streams)]
        for talker, own in zip(talkers, runs, strict=True):
            run = _timed(talker, batch, options, seed=1000 * (repeat + 1))
            if repeat >= 0:
                own.append(run)
    for talker in talkers:
        talker.close()
    engine, generate = runs
    return Comparison(
        streams=streams,
        dtype=dtype,
        engine_frames_per_s=median(run.frames_per_s for run in engine),
        generate_frames_per_s=median(run.frames_per_s for run in generate),
        ratio=median(
            own.frames_per_s / other.frames_per_s for own, other in zip(engine, generate, strict=True)
        ),
        engine=engine,
        generate=generate,
    )


def text_prompts(repository: Path) -> list[Prompt]:
    """The prompts of all texts, one segment each."""
    frontend, encoder = TextFrontend(), TextEncoder.load(repository / "encoder" / "1")
    segments = (frontend.segments(text)[0] for text in TEXTS)
    return [encoder.prompt(torch.from_numpy(segment.symbols), 0).numpy() for segment in segments]


def _timed(talker: Talker, batch: Sequence[Prompt], options: RequestOptions, seed: int) -> Run:
    began = time.perf_counter()
    frames = talker.speak(batch, options, seed)
    return Run(frames, time.perf_counter() - began)


def _max_frames(options: RequestOptions) -> int:
    return round(options.max_seconds * EngineConfig.frames_per_s)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m perf.talker", description=__doc__)
    add = parser.add_argument
    add("--repository", type=Path, default=ROOT / "model_repository", help="(%(default)s)")
    add("--streams", type=int, nargs="+", default=[1, 4, 16], metavar="N")
    add("--dtypes", nargs="+", choices=DTYPES, default=["float32"], metavar="DTYPE")
    add(
        "--decoder",
        type=DecoderChoice,
        choices=DecoderChoice,
        default=DecoderChoice.AUTO,
        help="(%(default)s)",
    )
    add("--threads", type=int, default=1, help="of torch, for both (%(default)s)")
    add("--repeats", type=int, default=5, help="(%(default)s)")
    add("--temperature", type=float, default=RequestOptions.temperature, help="(%(default)g)")
    add("--max-seconds", type=float, default=8.0, help="of each utterance (%(default)g)")
    add("--out", type=Path, default=Path("perf/results/talker.json"), help="(%(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
