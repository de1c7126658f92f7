"""Trains the talker on together with its heads: "with tuning" of Li et al. 2025, section III-B2. Resumable.

The result is another talker, whose tokens are not the shipped one's: a repository of its own, for
`python -m perf.speculation --tuned`, which no server loads.
"""

from __future__ import annotations

import argparse
import shutil
import time
from pathlib import Path

import torch
from talkahead.backbone.llama import Llama
from talkahead.draft_training.draft_losses import Teaching, weighted
from talkahead.draft_training.fast_products import fast_products
from talkahead.draft_training.lesson import IGNORE, Lesson
from talkahead.draft_training.optimizers import optimizers_of
from talkahead.draft_training.schedule import Schedule
from talkahead.draft_training.training_state import TrainingState
from talkahead.drafting.draft_artifact import Draft, target_hash
from talkahead.drafting.draft_files import draft_folder
from talkahead.drafting.draft_heads import DraftHeads
from torch import Tensor, nn
from torch.nn import functional

from instruments.dataset import Dataset
from instruments.recipes import TALKERS, TUNED, command
from training import export_drafts
from training.compiled_layers import compile_layers
from training.draft_lessons import FrozenTalker
from training.train_drafts import TABLES

_EVERY = 50
"""Steps between two checkpoints."""


class Pair(nn.Module):
    """Talker and heads that learn together; the text encoder stays as it is."""

    def __init__(self, teacher: FrozenTalker, heads: DraftHeads, places: int, soft: float = 0.0) -> None:
        super().__init__()
        self.talker = teacher.llama.requires_grad_(True)
        self.heads = heads.requires_grad_(True)
        self._teaching = Teaching(self.talker, places, soft)

    def losses(self, lesson: Lesson) -> tuple[Tensor, Tensor]:
        """Nats per token of the talker, [], and of each head, [K]."""
        with fast_products():
            logits = self.talker.lm_head(lesson.hidden).float()
            own = functional.cross_entropy(logits.flatten(0, 1), lesson.tokens.flatten(), ignore_index=IGNORE)
            return own, self._teaching.losses(self.heads, lesson)


def train(options: argparse.Namespace) -> None:
    torch.manual_seed(options.seed)
    teacher = FrozenTalker(options.repository)
    drafted = Draft.load(draft_folder(teacher.folder, "heads"), teacher.folder).network
    assert isinstance(drafted, DraftHeads)
    pair = Pair(teacher, drafted, options.places, options.soft)
    compile_layers(pair)
    optimizers = optimizers_of(pair, TABLES, options.decay)
    schedule = Schedule(options.rate, options.steps, options.warm_up, options.cooldown)
    checkpoint = TrainingState(options.out / "tuned.pt", pair, *optimizers)
    first = step = checkpoint.resume()
    learn = Dataset(options.dataset, "train")
    began, epoch = time.monotonic(), first
    while step < options.steps:
        for batch in learn.batches(options.tokens, options.seed + epoch):
            for optimizer in optimizers:
                schedule.apply(optimizer, step)
                optimizer.zero_grad(set_to_none=True)
            own, parts = pair.losses(teacher.lesson(batch, tells_expected=options.soft > 0))
            torch.autograd.backward(own + weighted(parts))
            nn.utils.clip_grad_norm_(pair.parameters(), 1.0)
            for optimizer in optimizers:
                optimizer.step()
            step += 1
            if step % 25 == 0:
                shown = " ".join(f"{part:.3f}" for part in (float(own.detach()), *parts.tolist()))
                pace = (time.monotonic() - began) / (step - first)
                print(f"tuned: step {step}/{options.steps}, {shown} nats, {pace:.2f} s a step", flush=True)
            if step % _EVERY == 0 or step == options.steps:
                checkpoint.save(step)
            if step == options.steps:
                break
        epoch += 1
    save(pair, options)


def save(pair: Pair, options: argparse.Namespace) -> None:
    """Writes what `build_engines calibrate` and the benchmark read of a repository."""
    talker = options.out / "talker" / "1"
    shutil.copytree(options.repository / "encoder", options.out / "encoder", dirs_exist_ok=True)
    llama = Llama(pair.talker.config)
    llama.load_state_dict(pair.talker.state_dict())
    llama.to(torch.bfloat16).save(talker)
    heads = Draft("heads", pair.heads, target_hash(talker))
    folder, data = draft_folder(talker, "heads"), "What the talker was trained on."
    export_drafts.write(heads, folder, command(TUNED), data, options.steps, {})
    print(f"tuned: {options.out}; its trees: python -m build_engines calibrate --repository {options.out}")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="training.tune_base",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--repository", type=Path, default=Path("model_repository"), help="with the talker and its heads")
    add("--dataset", type=Path, default=Path("build/training/dataset.npz"), help="(%(default)s)")
    add("--out", type=Path, default=Path("build/tuned"), help="the new repository (%(default)s)")
    add("--steps", type=int, default=TALKERS[TUNED])
    add("--tokens", type=int, default=6_000, help="padded positions in a step")
    add("--places", type=int, default=2_048, help="that heads learn from in a step")
    add(
        "--soft",
        type=float,
        default=0.5,
        help="share of the talker's distribution in the heads' loss (%(default)g)",
    )
    add("--warm-up", type=int, default=40, help="steps until the peak learning rate")
    add("--cooldown", type=float, default=0.6, help="share of the steps that bring it down again")
    add("--rate", type=float, default=1e-3, help="peak learning rate of both")
    add("--decay", type=float, default=0.05, help="weight decay of the hidden matrices")
    add("--seed", type=int, default=1)
    train(parser.parse_args())


if __name__ == "__main__":
    main()
