"""`python -m training.draft_trial CHECKPOINT`: how far ahead a talker can be guessed, by quick drafts.

The talker speaks texts of the dataset by itself. On what it said, residual heads learn to see ahead, and its
first layers to go on alone. The heads' trees are calibrated on other texts, and tokens per step counted on a
third part: `match` says what plain decoding says, so its steps are walked along that; `tolerance` is really
decoded. A draft of few layers is walked as well: with noise shared with the target, it agrees or ends there.

Writes `draft_trial.json` into the checkpoint's folder. The numbers compare shapes: drafts that ship are
trained longer.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from talkahead.backbone.llama import Llama, load_llama
from talkahead.backbone.native_decoder import NativeDecoder
from talkahead.config import RequestOptions
from talkahead.drafting.draft_heads import DraftHeads
from talkahead.drafting.heads_drafter import HeadsDrafter
from talkahead.drafting.rank_paths import RankPaths, RankTree
from talkahead.speculation.draws import stream_keys
from talkahead.speculation.match_verifier import MatchVerifier
from talkahead.speculation.sampling import SamplingSettings, candidates, draw
from talkahead.speculation.tolerance_verifier import ToleranceVerifier
from torch import Tensor
from torch.nn import functional

from instruments import report
from instruments.dataset import Dataset
from instruments.draft_ranks import CANDIDATES, positions, ranks, sampling_settings
from instruments.draft_shape import first_layers
from instruments.environment import Environment
from instruments.own_speech import RecordingDrafter, Utterance, read_prompts, speak
from training.schedule import Schedule
from training.trial_heads import train_heads

NAME = "draft_trial.json"
NODES = (2, 4, 8, 16, 32, 64)
TOLERANCE = 3
_SLOTS = 16
_MAX_FRAMES = 500
_CUT_BATCH = 8
_IGNORE = -100
_COUNTED = ("calibration", "held out")


@dataclass(frozen=True)
class TreeTrial:
    """One tree with one verifier.

    Args:
        nodes: root included.
        expected: tokens per step that the calibration promised (of `match`).
        committed_per_step: what held-out texts gave.
        tokens, steps: of each held-out text, the first token not counted.
    """

    nodes: int
    paths: list[list[int]]
    verifier: str
    expected: float | None
    committed_per_step: float
    tokens: list[int]
    steps: list[int]

    @classmethod
    def of(
        cls, tree: RankTree, verifier: str, expected: float | None, tokens: list[int], steps: list[int]
    ) -> Self:
        committed = sum(tokens) / sum(steps)
        print(f"{len(tree.shape)} nodes, {verifier}: {committed:.2f} a step", file=sys.stderr, flush=True)
        return cls(len(tree.shape), list(map(list, tree.paths)), verifier, expected, committed, tokens, steps)


@dataclass(frozen=True)
class CutTrial:
    """The first `layers` layers as a draft of `length` tokens.

    Args:
        overlap: mean over positions of sum min(p, q), the share that `ratio` accepts.
        agreement: share of positions where draft and target draw the same with the same noise.
        committed_per_step: of `match` with that noise, along what was said.
    """

    layers: int
    length: int
    overlap: float
    agreement: float
    committed_per_step: float


@dataclass(frozen=True)
class DraftTrial:
    """What one checkpoint's drafts reached.

    Args:
        hits: share of held-out positions where the token is a head's best, and among its candidates.
        bits_per_frame: of what was said, under the distribution that it was drawn from.
        spoken: texts of each part that ended by themselves.
    """

    shape: dict[str, Any]
    bits_per_frame: float
    spoken: dict[str, str]
    frames: dict[str, int]
    hits: list[tuple[float, float]]
    trees: list[TreeTrial]
    cuts: list[CutTrial]
    seconds: dict[str, float]


class Trial:
    """A checkpoint, rounded to bfloat16 as it is served, and the texts of its three parts."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.config, state = load_llama(options.checkpoint / "talker")
        self.state = {name: value.bfloat16().float() for name, value in state.items()}
        self.sampling = RequestOptions(temperature=options.temperature, top_p=options.top_p)
        self.prompts = {
            part: read_prompts(options.checkpoint / "encoder", Dataset(options.dataset, split), count, seed=1)
            for part, split, count in (
                ("learned", "train", options.learned),
                ("calibration", "calibration", options.calibration),
                ("held out", "development", options.held_out),
            )
        }

    def run(self) -> DraftTrial:
        watch = _Watch()
        spoken = {part: self._speak(prompts) for part, prompts in self.prompts.items()}
        watch.lap("speaking")
        heads = self._heads(spoken["learned"])
        watch.lap("heads")
        trees = list(self._trees(heads, spoken))
        watch.lap("trees")
        cuts = [cut for layers in self.options.cut_layers for cut in self._cut(layers, spoken)]
        watch.lap("cuts")
        places = ranks(heads, spoken["held out"], self.sampling)
        return DraftTrial(
            shape=asdict(self.config),
            bits_per_frame=self._bits(spoken["held out"]),
            spoken={part: f"{sum(map(self._ended, own))} of {len(own)}" for part, own in spoken.items()},
            frames={part: sum(len(one.tokens) for one in own) for part, own in spoken.items()},
            hits=[(_share(rank == 0), _share(rank < CANDIDATES)) for rank in places.unbind(1)],
            trees=trees,
            cuts=cuts,
            seconds=watch.laps,
        )

    def _decoder(self, nodes: int) -> NativeDecoder:
        longest = max(len(prompt) for prompts in self.prompts.values() for prompt in prompts)
        return NativeDecoder(
            self.config,
            self.state,
            num_slots=_SLOTS,
            max_positions=longest + _MAX_FRAMES,
            max_nodes=nodes,
        )

    def _speak(self, prompts: Sequence[Tensor]) -> list[Utterance]:
        decoder = self._decoder(1)
        return speak(decoder, RecordingDrafter(), MatchVerifier(), prompts, self.sampling, self.options.seed)

    def _ended(self, utterance: Utterance) -> bool:
        return utterance.tokens[-1] == self.config.eos

    def _bits(self, utterances: Sequence[Utterance]) -> float:
        """Mean -log2 of what was drawn, after temperature and top-p."""
        hidden, drawn = _drawn(utterances)
        support = candidates(self._target_logits(hidden), sampling_settings(self.sampling, len(drawn)))
        weights = support.weights / support.weights.sum(1, keepdim=True)
        chosen = (weights * (support.tokens == drawn[:, None])).sum(1)
        # A first token was drawn without the end of speech, which may have been all of q's nucleus.
        return float(-chosen[chosen > 0].log2().mean())

    def _target_logits(self, hidden: Tensor) -> Tensor:
        return functional.linear(hidden, self.state["lm_head.weight"])

    # Heads

    def _heads(self, learned: Sequence[Utterance]) -> DraftHeads:
        torch.manual_seed(self.options.seed)
        embeddings = self.state["model.embed_tokens.weight"]
        heads = DraftHeads.beginning_as(self.state["lm_head.weight"], self.options.heads, embeddings)
        seen = positions(learned, self.options.heads)
        train_heads(heads, *seen, self.options.steps, self.options.rate, self.options.seed)
        return heads.eval().requires_grad_(False)

    def _trees(self, heads: DraftHeads, spoken: dict[str, list[Utterance]]) -> Iterator[TreeTrial]:
        calibration, held_out = ([self._ranks(heads, one) for one in spoken[part]] for part in _COUNTED)
        paths = RankPaths.count(np.concatenate(calibration), CANDIDATES)
        plain = [len(one.tokens) - 1 for one in spoken["held out"]]
        for nodes in NODES:
            tree = paths.best_tree(nodes)
            expected = paths.committed_per_step(tree)
            steps = [tree.steps(own) for own in held_out]
            yield TreeTrial.of(tree, "match", expected, plain, steps)
            drafter = HeadsDrafter(heads, tree)
            verifier = ToleranceVerifier(TOLERANCE, self.config.eos)
            prompts = self.prompts["held out"]
            lenient = speak(
                self._decoder(nodes), drafter, verifier, prompts, self.sampling, self.options.seed
            )
            tokens, steps = [len(one.tokens) - 1 for one in lenient], [one.steps for one in lenient]
            yield TreeTrial.of(tree, f"tolerance {TOLERANCE}", None, tokens, steps)

    def _ranks(self, heads: DraftHeads, utterance: Utterance) -> npt.NDArray[np.int64]:
        found: npt.NDArray[np.int64] = ranks(heads, [utterance], self.sampling).numpy()
        return found

    # Drafts of few layers

    def _cut(self, layers: int, spoken: dict[str, list[Utterance]]) -> list[CutTrial]:
        talker = Llama(self.config)
        talker.load_state_dict(self.state)
        draft = first_layers(talker, layers)
        train_cut(draft, spoken["learned"], self.options.steps, self.options.rate, self.options.seed)
        draft.eval().requires_grad_(False)
        overlaps, agreements = [], []
        for utterance in spoken["held out"]:
            overlap, agreement = self._agreement(draft, utterance)
            overlaps.append(overlap)
            agreements.append(agreement)
        return [
            CutTrial(
                layers=layers,
                length=length,
                overlap=float(torch.cat(overlaps).mean()),
                agreement=_share(torch.cat(agreements)),
                committed_per_step=followed([one.tolist() for one in agreements], length),
            )
            for length in (1, 2, 3, 4)
        ]

    @torch.inference_mode()
    def _agreement(self, draft: Llama, utterance: Utterance) -> tuple[Tensor, Tensor]:
        """Of each token after the first: sum min(p, q), and whether both draw the same."""
        count = len(utterance.hidden) - 1
        guesses = draft_logits(draft, [utterance])[0, 1 : count + 1]
        truth = self._target_logits(torch.stack(utterance.hidden)[1:])
        settings = sampling_settings(self.sampling, count)
        overlap = torch.minimum(_filtered(guesses, settings), _filtered(truth, settings)).sum(1)
        key = stream_keys(torch.tensor([utterance.seed]), torch.tensor([0]))
        places = torch.arange(1, count + 1)[None]
        drawn = draw(guesses[None], sampling_settings(self.sampling, 1), key, places)[0]
        return overlap, drawn == torch.tensor(utterance.tokens[1 : count + 1])


def draft_logits(draft: Llama, utterances: Sequence[Utterance]) -> Tensor:
    """What the draft expects at each place of each utterance, [B, T, V]; place 0 is the first token."""
    rows, starts = [], []
    for one in utterances:
        said = torch.tensor(one.tokens[:-1], dtype=torch.int64)
        rows.append(torch.cat([one.prompt, draft.model.embed_tokens(said)]))
        starts.append(len(one.prompt) - 1)
    hidden = draft(torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)).hidden
    longest = max(len(one.tokens) for one in utterances)
    places = torch.tensor(starts)[:, None] + torch.arange(longest)
    places = places.clamp_max(hidden.shape[1] - 1)[..., None].expand(-1, -1, hidden.shape[2])
    logits: Tensor = draft.lm_head(hidden.gather(1, places))
    return logits


def train_cut(draft: Llama, learned: Sequence[Utterance], steps: int, rate: float, seed: int) -> None:
    """Cross entropy on what the target said."""
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(draft.parameters(), lr=rate, betas=(0.9, 0.98), weight_decay=0.01)
    by_length = sorted(learned, key=lambda one: len(one.prompt) + len(one.tokens))
    schedule = Schedule(rate, steps, warm_up=20, decay=0.5)
    for step in range(steps):
        schedule.apply(optimizer, step)
        start = int(torch.randint(max(1, len(by_length) - _CUT_BATCH), (), generator=generator))
        batch = by_length[start : start + _CUT_BATCH]
        targets = torch.nn.utils.rnn.pad_sequence(
            [torch.tensor(one.tokens) for one in batch], batch_first=True, padding_value=_IGNORE
        )
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = draft_logits(draft, batch)
        loss = functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten(), ignore_index=_IGNORE)
        optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        optimizer.step()


def followed(agreements: Sequence[Sequence[bool]], length: int) -> float:
    """Tokens per step when a draft of `length` is followed as far as it agrees, over all utterances.

    `agreements[u][t]` tells whether the draft's token t of utterance u is the target's.
    """
    tokens = steps = 0
    for own in agreements:
        tokens += len(own)
        place = 0
        while place < len(own):
            ahead = own[place : place + length]
            place += [*ahead, False].index(False) + 1
            steps += 1
    return tokens / steps


def _filtered(logits: Tensor, settings: SamplingSettings) -> Tensor:
    """Probabilities [M, V] after temperature and top-p."""
    support = candidates(logits, settings)
    weights = support.weights / support.weights.sum(1, keepdim=True)
    return torch.zeros(logits.shape, dtype=weights.dtype).scatter(1, support.tokens, weights)


def _drawn(utterances: Sequence[Utterance]) -> tuple[Tensor, Tensor]:
    """Hidden states [M, D] and the tokens [M] drawn from them."""
    hidden = torch.cat([torch.stack(one.hidden) for one in utterances])
    return hidden, torch.cat([torch.tensor(one.tokens[: len(one.hidden)]) for one in utterances])


def _share(hits: Tensor) -> float:
    return float(hits.double().mean())


class _Watch:
    """Seconds of each stage."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._began = time.monotonic()

    def lap(self, stage: str) -> None:
        now = time.monotonic()
        self.laps[stage] = round(now - self._began, 1)
        self._began = now
        print(f"{stage}: {self.laps[stage]} s", file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    environment = Environment.record()
    torch.set_num_threads(1)
    trial = Trial(options).run()
    settings = {name: value for name, value in vars(options).items() if not isinstance(value, Path)}
    report.save(options.checkpoint / NAME, "draft_trial", environment, settings, [trial])
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m training.draft_trial", description=__doc__)
    add = parser.add_argument
    add("checkpoint", type=Path, help="folder with encoder/ and talker/")
    add("--dataset", type=Path, default=Path("build/training/dataset.npz"), help="(%(default)s)")
    add("--learned", type=int, default=300, help="texts that drafts learn from (%(default)s)")
    add("--calibration", type=int, default=64, help="texts that trees are counted on (%(default)s)")
    add("--held-out", type=int, default=16, help="texts that tokens per step are counted on (%(default)s)")
    add("--heads", type=int, default=4, help="(%(default)s)")
    add("--steps", type=int, default=120, help="of each draft's training (%(default)s)")
    add("--cut-layers", type=int, nargs="+", default=[2], metavar="N", help="of drafts cut out (%(default)s)")
    add("--rate", type=float, default=1e-3, help="peak learning rate (%(default)g)")
    add("--temperature", type=float, default=0.7, help="(%(default)g)")
    add("--top-p", type=float, default=0.95, help="(%(default)g)")
    add("--seed", type=int, default=1, help="(%(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
