"""Trains a draft of one kind on the frozen talker. Resumable; tells how far held-out texts follow it.

`heads` see several tokens ahead at once (Li et al. 2025), `mtp` modules do so in cascade (Tian et al. 2025),
`draft_lm` is the talker's first layers, trained on (Yanuka et al. 2025).
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path

import torch
from talkahead.backbone.llama import Llama
from talkahead.config import RequestOptions
from talkahead.drafting.draft_artifact import Draft, DraftKind, target_hash
from talkahead.drafting.draft_heads import DraftHeads
from talkahead.drafting.mtp_modules import MtpModules
from torch import Tensor, nn

from training.checkpoint import Checkpoint, report
from training.dataset import Dataset
from training.draft_acceptance import Acceptance, OwnSpeech
from training.draft_lessons import FrozenTalker, Lesson
from training.draft_losses import Teaching, weighted
from training.own_speech import read_prompts
from training.schedule import Schedule

_TABLES = ("embed_tokens", "lm_head", "heads.")
_EVERY = 100
"""Steps between two measurements."""


def begin(options: argparse.Namespace, talker: Llama) -> DraftHeads | MtpModules | Llama:
    """The draft before its first step: as near to the talker as its kind allows."""
    if options.kind is DraftKind.HEADS:
        return DraftHeads.beginning_as(talker.lm_head.weight, options.heads)
    if options.kind is DraftKind.MTP:
        return MtpModules.beginning_as(talker, options.modules, sees_tokens=not options.no_tokens)
    return first_layers(talker, options.layers)


def first_layers(talker: Llama, layers: int) -> Llama:
    """The first `layers` layers of a talker, with its embeddings, last norm and head."""
    short = Llama(replace(talker.config, num_hidden_layers=layers))
    state = talker.state_dict()
    short.load_state_dict({name: state[name] for name in short.state_dict()})
    return short


def optimizers_of(network: nn.Module, decay: float) -> list[torch.optim.Optimizer]:
    """Muon for the hidden matrices (it needs fewer steps), AdamW for embeddings, norms and heads."""
    matrices: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    for name, value in network.named_parameters():
        hidden = value.ndim == 2 and not any(part in name for part in _TABLES)
        (matrices if hidden else others).append(value)
    muon = torch.optim.Muon(matrices, lr=1e-3, weight_decay=decay, adjust_lr_fn="match_rms_adamw")
    return [muon, torch.optim.AdamW(others, lr=1e-3, betas=(0.9, 0.98), weight_decay=0.01)]


class DraftTraining:
    """One draft, what it learns from and how it is judged."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.talker = FrozenTalker(options.repository)
        self.learn = Dataset(options.dataset, "train")
        self.held_out = Dataset(options.dataset, "development")
        self.network = begin(options, self.talker.llama)
        self.network.requires_grad_(True)
        self.optimizers = optimizers_of(self.network, options.decay)
        self.folder: Path = options.out / name_of(options)
        self.checkpoint = Checkpoint(self.folder.with_suffix(".pt"), self.network, *self.optimizers)
        self.acceptance = self._acceptance()

    def _acceptance(self) -> Acceptance:
        options, encoder = self.options, self.options.repository / "encoder" / "1"
        sampling = RequestOptions(temperature=options.temperature, top_p=options.top_p)
        calibration, held_out = (
            OwnSpeech(
                self.talker.llama,
                read_prompts(encoder, Dataset(options.dataset, split), options.texts, seed=1),
                sampling,
                options.seed,
            )
            for split in ("calibration", "development")
        )
        plain = calibration.plain() if options.kind is DraftKind.HEADS else []
        return Acceptance(self.talker.llama, plain, held_out)

    def run(self) -> None:
        options = self.options
        schedule = Schedule(options.rate, options.steps, options.warm_up, options.cooldown)
        first = step = epoch = self.checkpoint.resume()
        began = time.monotonic()
        while step < options.steps:
            for batch in self.learn.batches(options.tokens, options.seed + epoch):
                for optimizer in self.optimizers:
                    schedule.apply(optimizer, step)
                    optimizer.zero_grad(set_to_none=True)
                parts = self._losses(self.talker.lesson(batch), self.options.soft)
                torch.autograd.backward(weighted(parts))
                nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
                for optimizer in self.optimizers:
                    optimizer.step()
                step += 1
                if step % 25 == 0:
                    pace = (time.monotonic() - began) / (step - first)
                    self._say(step, f"{_nats(parts.detach())} nats, {pace:.2f} s a step")
                if step % _EVERY == 0 or step == options.steps:
                    self.checkpoint.save(step)
                if step % options.measured == 0 or step == options.steps:
                    self.keep(step)
                if step == options.steps:
                    break
            epoch += 1

    def _losses(self, lesson: Lesson, soft: float) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return Teaching(self.talker.llama, self.options.places, soft).losses(self.network, lesson)

    def _say(self, step: int, text: str) -> None:
        print(f"{self.folder.name}: step {step}/{self.options.steps}, {text}", flush=True)

    @torch.no_grad()
    def keep(self, step: int) -> None:
        """Writes the draft as the server loads it, and what it reached."""
        self.network.eval()
        batches = self.held_out.batches(self.options.tokens, seed=0)
        some = (batch for _, batch in zip(range(4), batches, strict=False))
        parts = [self._losses(self.talker.lesson(batch), soft=0.0) for batch in some]
        nats = torch.stack(parts).mean(0)
        committed = self.acceptance.measure(self.network)
        self.network.train()
        self._say(step, f"held-out {_nats(nats)} nats, {committed:.3f} tokens a step")
        Draft(self.options.kind, self.network, target_hash(self.talker.folder)).save(self.folder)
        metrics = {f"held_out_nats_{ahead}": round(float(one), 4) for ahead, one in enumerate(nats, 1)}
        report(
            self.folder.with_suffix(".report.json"),
            step,
            {**metrics, "held_out_tokens_per_step": round(committed, 4)},
        )


def name_of(options: argparse.Namespace) -> str:
    """Of the draft's folder: its kind, and what is not as by default."""
    if options.kind is DraftKind.HEADS:
        return "heads" if options.heads == 4 else f"heads-{options.heads}"
    if options.kind is DraftKind.MTP:
        return f"mtp{'' if options.modules == 2 else f'-{options.modules}'}{'-blind' * options.no_tokens}"
    return f"draft_lm-{options.layers}"


def _nats(parts: Tensor) -> str:
    return " ".join(f"{float(one):.3f}" for one in parts)


def main() -> None:
    parser = argparse.ArgumentParser(prog="training.train_drafts", description=__doc__)
    add = parser.add_argument
    add("--kind", type=DraftKind, choices=list(DraftKind), required=True)
    add("--repository", type=Path, default=Path("model_repository"), help="with the talker to draft for")
    add("--dataset", type=Path, default=Path("build/training/dataset.npz"), help="(%(default)s)")
    add("--out", type=Path, default=Path("build/training/drafts"), help="checkpoints and results")
    add("--heads", type=int, default=4, help="of kind heads (%(default)s)")
    add("--modules", type=int, default=2, help="of kind mtp (%(default)s)")
    add("--no-tokens", action="store_true", help="of kind mtp: modules see hidden states alone")
    add("--layers", type=int, default=2, help="of kind draft_lm (%(default)s)")
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
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    DraftTraining(options).run()


if __name__ == "__main__":
    main()
