"""`python -m perf.talker`: frames per second of the talker's engine beside `generate` and llama.cpp.

Same weights, same prompts, same sampling, same threads, in one run, by turns; of each, the precision that is
fastest here. A batch starts together and the clock runs until its last stream has ended: prompts are read,
frames are drawn until the end of speech, and only frames that a listener would hear count. transformers'
`generate` runs a static batch, as it does. llama.cpp comes with the extra `llama`, which compiles it for this
machine.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import torch
from talkahead.backbone.decoder_choice import DecoderChoice
from talkahead.backbone.native_decoder import can_multiply
from talkahead.config import RequestOptions
from talkahead.native_library import NativeUnavailable

from instruments import report
from instruments.environment import REPOSITORY, Environment
from instruments.sampling import add_sampling, sampling_of
from perf.talker.agreement import Agreement
from perf.talker.comparison import Contender, compare
from perf.talker.engine_talker import EngineTalker
from perf.talker.generate_talker import GenerateTalker
from perf.talker.prompts import text_prompts
from perf.talker.talker import Prompt, Talker, max_frames

OURS, GENERATE, LLAMA_CPP = KINDS = ("talkahead", "generate", "llama.cpp")
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
_MISSING = (
    "llama.cpp is missing, so its column stays empty: .venv/bin/python -m pip install "
    "--constraint constraints.txt --editable '.[llama]' (compiles for ten minutes)"
)
_CHECKED = 8
"""Prompts whose most likely frames have to be ours."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    here = precisions(options.decoder)
    if absent := set(options.dtypes or here) - set(here):
        parser.error(f"--dtypes: this machine does not compute in {', '.join(absent)}; allowed: {here}")
    environment = Environment.record(options.repository)
    torch.set_num_threads(options.threads)
    prompts = text_prompts(options.repository)
    spoken = replace(
        sampling_of(options, options.repository / "talker" / "1"), max_seconds=options.max_seconds
    )
    contenders = [*_ours(options, options.dtypes or here[-1:]), *_generate(options)]
    agreement = None
    if find_spec("llama_cpp") is None or find_spec("gguf") is None:
        print(_MISSING, file=sys.stderr)
    else:
        agreement = _agreement(options, prompts[:_CHECKED], spoken)
        print(f"llama.cpp in float32 and our engine say {agreement}")
        if not agreement.is_same_model:
            raise SystemExit("what llama.cpp runs is not our talker: there is nothing to compare")
        contenders += _llama_cpp(options)
    comparisons = []
    for streams in options.streams:
        print(f"{streams} streams, {len(contenders)} contenders", file=sys.stderr, flush=True)
        comparisons.append(compare(contenders, prompts, spoken, streams, options.repeats))
    print(report.table([comparison.row(KINDS) for comparison in comparisons]))
    settings = {
        "threads": options.threads,
        "decoder": options.decoder,
        "temperature": spoken.temperature,
        "top_p": spoken.top_p,
        "top_k": spoken.top_k,
        "max_frames": max_frames(spoken, options.repository),
        "llama_cpp": None if agreement is None else {"features": _features(), **asdict(agreement)},
    }
    report.save(options.out, "talker", environment, settings, comparisons)
    return 0


def precisions(decoder: DecoderChoice) -> list[str]:
    """That our engine computes in here, the narrowest last: the one that is served."""
    if decoder is DecoderChoice.TORCH:
        return list(DTYPES)
    try:
        return [name for name, dtype in DTYPES.items() if can_multiply(dtype)]
    except NativeUnavailable:  # torch stands in, in float32
        return ["float32"]


def _ours(options: argparse.Namespace, dtypes: Sequence[str]) -> list[Contender]:
    def make(dtype: str, streams: int) -> Talker:
        return EngineTalker(options.repository, streams, DTYPES[dtype], options.decoder)

    return [Contender(OURS, dtype, partial(make, dtype)) for dtype in dtypes]


def _generate(options: argparse.Namespace) -> list[Contender]:
    def make(dtype: torch.dtype, streams: int) -> Talker:
        return GenerateTalker(options.repository, dtype)

    return [Contender(GENERATE, name, partial(make, dtype)) for name, dtype in DTYPES.items()]


def _llama_cpp(options: argparse.Namespace) -> list[Contender]:
    from perf.talker.gguf_file import TYPES
    from perf.talker.llama_cpp_talker import LlamaCppTalker

    def make(precision: str, streams: int) -> Talker:
        return LlamaCppTalker(options.repository, streams, precision, options.threads)

    return [Contender(LLAMA_CPP, precision, partial(make, precision)) for precision in TYPES]


def _features() -> str:
    from perf.talker.llama_cpp_talker import features

    return features()


def _agreement(options: argparse.Namespace, prompts: Sequence[Prompt], spoken: RequestOptions) -> Agreement:
    """Of our engine and llama.cpp, both in float32."""
    wide = [*_ours(options, ["float32"]), *_llama_cpp(options)[:1]]
    one, other = (contender.make(len(prompts)) for contender in wide)
    try:
        return Agreement.of(one, other, prompts, spoken)
    finally:
        one.close()
        other.close()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m perf.talker", description=__doc__)
    add = parser.add_argument
    add("--repository", type=Path, default=REPOSITORY, help="(%(default)s)")
    add("--streams", type=int, nargs="+", default=[1, 4, 16], metavar="N")
    add("--dtypes", nargs="+", choices=DTYPES, metavar="DTYPE",
        help="of our engine (as served); the others are measured in all that they have")  # fmt: skip
    add(
        "--decoder",
        type=DecoderChoice,
        choices=DecoderChoice,
        default=DecoderChoice.AUTO,
        help="(%(default)s)",
    )
    add("--threads", type=int, default=1, help="of each (%(default)s)")
    add("--repeats", type=int, default=5, help="(%(default)s)")
    add_sampling(parser)
    add("--max-seconds", type=float, default=8.0, help="of each utterance (%(default)g)")
    add("--out", type=Path, default=Path("perf/results/talker.json"), help="(%(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
