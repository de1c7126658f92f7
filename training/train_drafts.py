"""Trains drafts on the frozen talker. Resumable; tells how far held-out texts follow them.

`heads` see several tokens ahead at once (Li et al. 2025), `mtp` modules do so in cascade (Tian et al. 2025),
`draft_lm` is the talker's first layers, trained on (Yanuka et al. 2025). Drafts of one run share the talker's
forward, which is most of the work.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch
from talkahead.config import RequestOptions
from talkahead.drafting.draft_artifact import WEIGHTS, Draft, DraftKind, target_hash
from torch import Tensor, nn

from instruments.dataset import Dataset
from instruments.draft_shape import DraftShape
from instruments.own_speech import OwnSpeech, read_prompts
from training.checkpoint import Checkpoint, go_on_from, report
from training.compiled_layers import compile_layers
from training.draft_acceptance import Acceptance
from training.draft_lessons import FrozenTalker, Lesson
from training.draft_losses import Teaching, weighted
from training.optimizers import optimizers_of
from training.schedule import Schedule

TABLES = ("embed_tokens", "lm_head", "linears")
_EVERY = 100
"""Steps between two checkpoints."""


class Pupil:
    """One draft that learns, with its optimisers and its checkpoint."""

    def __init__(self, shape: DraftShape, talker: FrozenTalker, options: argparse.Namespace) -> None:
        self.shape = shape
        self.network = shape.begin(talker.llama)
        if options.start:
            go_on_from(self.network, options.start / shape.name / WEIGHTS)
        self.network.requires_grad_(True)
        self.folder: Path = options.out / shape.name
        self._options = options
        self._target = target_hash(talker.folder)
        self._schedule = Schedule(options.rate, options.steps, options.warm_up, options.cooldown)
        self._optimizers = optimizers_of(self.network, TABLES, options.decay)
        self._checkpoint = Checkpoint(self.folder.with_suffix(".pt"), self.network, *self._optimizers)
        self.step = self._checkpoint.resume()

    def learn(self, lesson: Lesson, teaching: Teaching) -> None:
        for optimizer in self._optimizers:
            self._schedule.apply(optimizer, self.step)
            optimizer.zero_grad(set_to_none=True)
        parts = self.nats(lesson, teaching)
        torch.autograd.backward(weighted(parts))
        nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        for optimizer in self._optimizers:
            optimizer.step()
        self.step += 1
        if self.step % 25 == 0:
            self.say(f"{_shown(parts.detach())} nats")
        if self.step % _EVERY == 0 or self.step == self._options.steps:
            self._checkpoint.save(self.step)

    def nats(self, lesson: Lesson, teaching: Teaching) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return teaching.losses(self.network, lesson)

    def say(self, text: str) -> None:
        print(f"{self.shape.name}: step {self.step}/{self._options.steps}, {text}", flush=True)

    @torch.no_grad()
    def keep(self, lessons: list[Lesson], teaching: Teaching, acceptance: Acceptance) -> None:
        """Writes the draft as the server loads it, and what it reached on held-out lessons and texts."""
        self.network.eval()
        nats = torch.stack([self.nats(lesson, teaching) for lesson in lessons]).mean(0)
        committed = acceptance.measure(self.network)
        self.network.train()
        self.say(f"held-out {_shown(nats)} nats, {committed:.3f} tokens a step")
        Draft(self.shape.kind, self.network, self._target).save(self.folder)
        metrics = {f"held_out_nats_{ahead}": round(float(one), 4) for ahead, one in enumerate(nats, 1)}
        metrics["held_out_tokens_per_step"] = round(committed, 4)
        report(self.folder.with_suffix(".report.json"), self.step, metrics)


def _shown(parts: Tensor) -> str:
    return " ".join(f"{float(one):.3f}" for one in parts)


def train(options: argparse.Namespace) -> None:
    torch.manual_seed(options.seed)
    talker = FrozenTalker(options.repository)
    pupils = [Pupil(shape, talker, options) for shape in options.kind]
    for network in (talker.llama, *(pupil.network for pupil in pupils)):
        compile_layers(network)
    learn, held_out = Dataset(options.dataset, "train"), Dataset(options.dataset, "development")
    batches = held_out.batches(options.tokens, seed=0)
    exams = [talker.lesson(batch) for _, batch in zip(range(4), batches, strict=False)]
    acceptance = _acceptance(talker, options)
    teaching = Teaching(talker.llama, options.places, options.soft)
    first = step = epoch = min(pupil.step for pupil in pupils)
    began = time.monotonic()
    while step < options.steps:
        for batch in learn.batches(options.tokens, options.seed + epoch):
            lesson = talker.lesson(batch, tells_expected=options.soft > 0)
            # One that was taken further in an earlier run waits for the others.
            ready = [pupil for pupil in pupils if pupil.step == step]
            for pupil in ready:
                pupil.learn(lesson, teaching)
            step += 1
            if step % 25 == 0:
                print(f"drafts: {(time.monotonic() - began) / (step - first):.2f} s a step", flush=True)
            if step % options.measured == 0 or step == options.steps:
                for pupil in ready:
                    pupil.keep(exams, Teaching(talker.llama, options.places), acceptance)
            if step == options.steps:
                break
        epoch += 1


def _acceptance(talker: FrozenTalker, options: argparse.Namespace) -> Acceptance:
    sampling = RequestOptions(temperature=options.temperature, top_p=options.top_p)
    encoder = options.repository / "encoder" / "1"
    calibration, held_out = (
        OwnSpeech(
            talker.llama,
            read_prompts(encoder, Dataset(options.dataset, split), options.texts, seed=1),
            sampling,
            options.seed,
        )
        for split in ("calibration", "development")
    )
    has_heads = any(shape.kind is DraftKind.HEADS for shape in options.kind)
    return Acceptance(talker.llama, calibration.plain() if has_heads else [], held_out)


def main() -> None:
    parser = argparse.ArgumentParser(prog="training.train_drafts", description=__doc__)
    add = parser.add_argument
    example = "of heads, mtp, draft_lm; with a size: heads-6, mtp-1; or told no tokens: mtp-blind"
    add("--kind", type=DraftShape.of, nargs="+", required=True, metavar="NAME", help=example)
    add("--repository", type=Path, default=Path("model_repository"), help="with the talker to draft for")
    add("--dataset", type=Path, default=Path("build/training/dataset.npz"), help="(%(default)s)")
    add("--out", type=Path, default=Path("build/training/drafts"), help="checkpoints and results")
    add("--start", type=Path, help="folder of drafts to go on from, of the same names, if of another talker")
    add("--steps", type=int, default=1_000)
    add("--tokens", type=int, default=6_000, help="padded positions in a step")
    add("--places", type=int, default=2_048, help="of kind heads: positions learned from in a step")
    add(
        "--soft", type=float, default=0.5, help="share of the talker's distribution in the loss (%(default)g)"
    )
    add("--measured", type=int, default=250, help="steps between two measurements of acceptance")
    add("--texts", type=int, default=16, help="spoken to measure acceptance")
    add("--warm-up", type=int, default=40, help="steps until the peak learning rate")
    add("--cooldown", type=float, default=0.4, help="share of the steps that bring it down again")
    add("--rate", type=float, default=1e-3, help="peak learning rate")
    add("--decay", type=float, default=0.05, help="weight decay of the hidden matrices")
    add("--temperature", type=float, default=0.7, help="of the speech that acceptance is measured on")
    add("--top-p", type=float, default=0.95, help="likewise")
    add("--seed", type=int, default=1)
    train(parser.parse_args())


if __name__ == "__main__":
    main()
