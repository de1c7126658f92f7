"""`python -m perf.precision`: what narrow products change in what the shipped talker says.

The talker speaks every text in float32. The same frames are scored again in bfloat16, int8 or int4, teacher
forced, for the errors of logits, the most likely frames that change, and the draws that change though their
noise is the same. Then that precision speaks alone, for the share of utterances that part from float32's and
where.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from talkahead.backbone.decoder_choice import Precision
from talkahead.backbone.llama import load_llama
from talkahead.backbone.native_decoder import NativeDecoder
from talkahead.speculation.contracts import Accepted
from talkahead.speculation.draws import stream_keys
from talkahead.speculation.rows import Rows
from talkahead.speculation.sampling import SamplingSettings, draw
from talkahead.speculation.token_tree import ROOT_ALONE, TokenTree
from torch import Tensor

from instruments import report
from instruments.environment import REPOSITORY, Environment
from perf.arguments import add_precision
from perf.talker.prompts import text_prompts
from perf.talker.talker import Prompt

_SLOT = Rows.of([0])


@dataclass(frozen=True)
class Utterance:
    """One text: the narrow precision against float32.

    Args:
        frames: that float32 spoke, the end included.
        largest_error: of a logit; `spread` is the standard deviation of the logits.
        mean_kl: nats between the two distributions at temperature 1, mean over frames.
        changed_best: frames whose most likely token changes.
        changed_draws: frames whose draw changes, same noise and same past.
        parted: the first frame that differs when the narrow one speaks alone, or null.
    """

    temperature: float
    text: int
    frames: int
    spread: float
    largest_error: float
    mean_error: float
    mean_kl: float
    changed_best: int
    changed_draws: int
    parted: int | None


class _Speaker:
    """One stream, drawn as the engine draws it."""

    def __init__(self, decoder: NativeDecoder, prompt: Prompt, temperature: float, seed: int) -> None:
        self._decoder = decoder
        rows = torch.from_numpy(prompt)[None]
        self._logits = decoder.prefill([0], rows, [len(prompt)]).logits
        self._keys = stream_keys(torch.tensor([seed]), torch.zeros(1, dtype=torch.int64))
        one = torch.ones(1, dtype=torch.float64)
        self._settings = SamplingSettings.of(temperature * one, torch.zeros(1, dtype=torch.int64), 0.95 * one)
        self._position = 0

    @property
    def logits(self) -> Tensor:
        """[V] of what comes next."""
        return self._logits[0, 0]

    def draw(self) -> int:
        return int(draw(self._logits, self._settings, self._keys, torch.tensor([[self._position]])))

    def go_on(self, token: int) -> None:
        ones = torch.ones(1, dtype=torch.int64)
        self._logits = self._decoder.score(TokenTree(torch.tensor([[[token]]])), _SLOT).logits
        self._decoder.commit(Accepted(ones[:, None] - 1, ones, ones[:, None]), ROOT_ALONE, _SLOT)
        self._position += 1


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    environment = Environment.record(options.repository)
    torch.set_num_threads(1)
    config, state = load_llama(options.repository / "talker" / "1")
    wide, narrow = (
        NativeDecoder(config, state, num_slots=1, max_positions=1024, precision=precision)
        for precision in (torch.float32, options.precision.dtype)
    )
    utterances = [
        compare(wide, narrow, prompt, text, temperature, options.max_frames)
        for temperature in options.temperatures
        for text, prompt in enumerate(text_prompts(options.repository))
    ]
    rows = [
        summary(temperature, [each for each in utterances if each.temperature == temperature])
        for temperature in options.temperatures
    ]
    print(report.markdown(rows))
    settings = {"precision": options.precision, "max_frames": options.max_frames}
    report.save(options.out, "precision", environment, settings, utterances)
    return 0


def compare(
    wide: NativeDecoder, narrow: NativeDecoder, prompt: Prompt, text: int, temperature: float, limit: int
) -> Utterance:
    """Float32 speaks, the narrow one follows; then it speaks alone."""
    leader, follower = (_Speaker(decoder, prompt, temperature, text) for decoder in (wide, narrow))
    spoken: list[int] = []
    ours, theirs = [], []
    changed_draws = 0
    while len(spoken) < limit and wide.eos not in spoken[-1:]:
        ours.append(leader.logits)
        theirs.append(follower.logits)
        spoken.append(leader.draw())
        changed_draws += follower.draw() != spoken[-1]
        leader.go_on(spoken[-1])
        follower.go_on(spoken[-1])
    exact, rounded = torch.stack(ours).double(), torch.stack(theirs).double()
    errors = (rounded - exact).abs()
    logs = exact.log_softmax(-1)
    divergence = (logs.exp() * (logs - rounded.log_softmax(-1))).sum(-1)
    return Utterance(
        temperature=temperature,
        text=text,
        frames=len(spoken),
        spread=float(exact.std()),
        largest_error=float(errors.max()),
        mean_error=float(errors.mean()),
        mean_kl=float(divergence.mean()),
        changed_best=int((exact.argmax(-1) != rounded.argmax(-1)).sum()),
        changed_draws=changed_draws,
        parted=_parted(_Speaker(narrow, prompt, temperature, text), spoken),
    )


def summary(temperature: float, utterances: Sequence[Utterance]) -> dict[str, str]:
    frames = sum(each.frames for each in utterances)

    def mean(name: str) -> float:
        return float(sum(getattr(each, name) * each.frames for each in utterances) / frames)

    def share(name: str) -> str:
        return f"{100 * sum(getattr(each, name) for each in utterances) / frames:.2f} %"

    return {
        "temperature": f"{temperature:g}",
        "frames": str(frames),
        "spread of logits": f"{mean('spread'):.2f}",
        "mean error": f"{mean('mean_error'):.4f}",
        "largest error": f"{max(each.largest_error for each in utterances):.3f}",
        "KL, nats": f"{mean('mean_kl'):.1e}",
        "best token changed": share("changed_best"),
        "draw changed": share("changed_draws"),
        "utterances parted": f"{sum(each.parted is not None for each in utterances)} of {len(utterances)}",
    }


def _parted(speaker: _Speaker, spoken: Sequence[int]) -> int | None:
    for frame, token in enumerate(spoken):
        if speaker.draw() != token:
            return frame
        speaker.go_on(token)
    return None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m perf.precision", description=__doc__)
    add = parser.add_argument
    add_precision(parser, Precision.BFLOAT16)
    add("--temperatures", type=float, nargs="+", default=[0.0, 0.7], help="(0 and 0.7)")
    add("--max-frames", type=int, default=250, help="of an utterance (%(default)s)")
    add("--repository", type=Path, default=REPOSITORY, help="(%(default)s)")
    add("--out", type=Path, default=Path("perf/results/precision.json"), help="(%(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
