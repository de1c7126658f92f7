"""Trains drafts on the frozen talker by their recipes. Resumable; tells how far held-out texts follow them.

`heads` see several tokens ahead at once (Li et al. 2025), `mtp` modules do so in cascade (Tian et al. 2025),
`draft_lm` is the talker's first layers, trained on (Yanuka et al. 2025). Drafts of one run share the talker's
forward, which is most of the work. How long each learns, and from what loss, says `instruments.recipes`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import torch
from talkahead.backbone.llama import Llama
from talkahead.draft_training.draft_losses import Teaching, weighted
from talkahead.draft_training.draft_shape import DraftShape, first_heads
from talkahead.draft_training.fast_products import fast_products
from talkahead.draft_training.lesson import Lesson
from talkahead.draft_training.optimizers import optimizers_of
from talkahead.draft_training.own_speech import OwnSpeech, Talker
from talkahead.draft_training.schedule import Rounds, Schedule
from talkahead.draft_training.tokens_per_step import TokensPerStep
from talkahead.draft_training.training_state import TrainingState
from talkahead.drafting.draft_artifact import WEIGHTS, Draft, target_hash
from talkahead.drafting.draft_heads import DraftHeads
from talkahead.drafting.drafters import DRAFTERS
from talkahead.drafting.mtp_modules import MtpModules
from talkahead.manifest import sha256
from torch import Tensor, nn

from instruments.dataset import Batch, Dataset
from instruments.prompts import read_prompts
from instruments.recipes import POSITIONS, RECIPES, Recipe, Round
from instruments.sampling import add_sampling, sampling_of
from training.checkpoint import go_on_from
from training.compiled_layers import compile_layers
from training.draft_lessons import FrozenTalker

TABLES = ("embed_tokens", "lm_head", "linears")
_EVERY = 100
"""Steps between two checkpoints."""
_TRIALS = ("steps", "tokens", "places", "warm_up", "cooldown", "decay", "seed")
"""Options that change what is learned; a draft that was trained with others than the usual tells them."""

Network = DraftHeads | MtpModules | Llama


class Pupil:
    """One network that learns, with optimisers and checkpoint, and the drafts that are cut from it."""

    def __init__(self, recipes: Sequence[Recipe], talker: FrozenTalker, options: argparse.Namespace) -> None:
        self.recipes = recipes
        self.recipe = replace(recipes[0], name=recipes[0].learner, cut_from="")
        self.shape = DraftShape.of(self.recipe.name)
        self.network = self.shape.begin(talker.llama)
        self._start = options.start / self.recipe.name / WEIGHTS if options.start else None
        if self._start:
            go_on_from(self.network, self._start)
        self.network.requires_grad_(True)
        self._options = options
        self._teaching = Teaching(talker.llama, options.places, self.recipe.soft)
        self._target = target_hash(talker.folder)
        self._schedule = Rounds(
            tuple(
                Schedule(one.rate, one.steps, options.warm_up, options.cooldown) for one in self.recipe.rounds
            )
        )
        self._optimizers = optimizers_of(self.network, TABLES, options.decay)
        checkpoint = options.out / f"{self.recipe.name}.pt"
        self._hold_to_recipe(checkpoint.with_suffix(".recipe.json"))
        self._checkpoint = TrainingState(checkpoint, self.network, *self._optimizers)
        self.step = self._checkpoint.resume()

    def _hold_to_recipe(self, path: Path) -> None:
        """What has begun by one recipe does not go on by another."""
        own = {"target": self._target, "recipe": asdict(self.recipe)}
        own = json.loads(json.dumps(own))
        if path.exists() and (known := json.loads(path.read_text(encoding="utf-8"))) != own:
            raise SystemExit(
                f"{self.recipe.name}: what lies in {path.parent} was begun for the talker "
                f"{known['target'][:12]} as: {Recipe.from_json(known['recipe']).told} "
                "Remove it, or choose another --out"
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(own, indent=1) + "\n", encoding="utf-8")

    @property
    def is_done(self) -> bool:
        """For this run."""
        return self.step >= min(self.recipe.steps, self._options.until or self.recipe.steps)

    def learn(self, lesson: Lesson) -> None:
        for optimizer in self._optimizers:
            self._schedule.apply(optimizer, self.step)
            optimizer.zero_grad(set_to_none=True)
        parts = self._nats(self.network, lesson, self._teaching)
        torch.autograd.backward(weighted(parts, fades=self.recipe.fades))
        nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        for optimizer in self._optimizers:
            optimizer.step()
        self.step += 1
        if self.step % 25 == 0:
            self.say(f"{_shown(parts.detach())} nats")

    def _nats(self, network: Network, lesson: Lesson, teaching: Teaching) -> Tensor:
        with fast_products():
            return teaching.losses(network, lesson)

    def say(self, text: str) -> None:
        print(f"{self.recipe.name}: step {self.step}/{self.recipe.steps}, {text}", flush=True)

    def save(self) -> None:
        self._checkpoint.save(self.step)

    @torch.no_grad()
    def keep(self, lessons: list[Lesson], exam: Teaching, acceptance: TokensPerStep) -> None:
        """Writes the drafts as the server loads them, and what they reached on held-out lessons and texts."""
        self.network.eval()
        for recipe in self.recipes:
            network = self._cut(recipe)
            nats = torch.stack([self._nats(network, lesson, exam) for lesson in lessons]).mean(0)
            committed = acceptance.measure(network)
            print(
                f"{recipe.name}: step {self.step}/{self.recipe.steps}, held-out {_shown(nats)} nats, "
                f"{committed:.3f} tokens a step",
                flush=True,
            )
            metrics = {f"held_out_nats_{ahead}": round(float(one), 4) for ahead, one in enumerate(nats, 1)}
            metrics["held_out_tokens_per_step"] = round(committed, 4)
            folder = self._options.out / recipe.name
            Draft(self.shape.drafter, network, self._target).save(folder)
            folder.with_suffix(".report.json").write_text(
                json.dumps(self._report(recipe, metrics), indent=2), encoding="utf-8"
            )
        self.network.train()

    def _cut(self, recipe: Recipe) -> Network:
        if not recipe.cut_from:
            return self.network
        assert isinstance(self.network, DraftHeads)
        return first_heads(self.network, DraftShape.of(recipe.name).size)

    def _report(self, recipe: Recipe, metrics: dict[str, float]) -> dict[str, object]:
        return {
            "recipe": asdict(recipe),
            "trial": self._options.trial,
            "began_as": sha256(self._start) if self._start else None,
            "steps": self.step,
            "metrics": metrics,
        }


def _shown(parts: Tensor) -> str:
    return " ".join(f"{float(one):.3f}" for one in parts)


def train(options: argparse.Namespace) -> None:
    torch.manual_seed(options.seed)
    talker = FrozenTalker(options.repository)
    pupils = [Pupil(recipes, talker, options) for recipes in _by_learner(options.recipe, options.steps)]
    for network in (talker.llama, *(pupil.network for pupil in pupils)):
        compile_layers(network)
    learn, held_out = Dataset(options.dataset, "train"), Dataset(options.dataset, "development")
    batches = held_out.batches(options.tokens, seed=0)
    lessons = [talker.lesson(batch) for _, batch in zip(range(4), batches, strict=False)]
    acceptance, exam = _acceptance(talker, options), Teaching(talker.llama, options.places)
    began = time.monotonic()
    every = _endless(learn, options.tokens, options.seed + min(pupil.step for pupil in pupils))
    for count, batch in enumerate(every, 1):
        due = _due(pupils)
        if not due:
            break
        lesson = talker.lesson(batch, tells_expected=any(pupil.recipe.soft for pupil in due))
        for pupil in due:
            pupil.learn(lesson)
            if pupil.is_done or pupil.step % _EVERY == 0:
                pupil.save()
            if pupil.is_done or pupil.step % options.measured == 0:
                pupil.keep(lessons, exam, acceptance)
        if count % 25 == 0:
            print(f"drafts: {(time.monotonic() - began) / count:.2f} s a step", flush=True)


def _by_learner(recipes: Sequence[Recipe], steps: int | None) -> list[list[Recipe]]:
    """Those that are cut from one network together; of a trial, shorter ones."""
    found: dict[str, list[Recipe]] = {}
    for recipe in recipes:
        own = replace(recipe, rounds=(Round(steps, recipe.rounds[0].rate),)) if steps else recipe
        found.setdefault(recipe.learner, []).append(own)
    return list(found.values())


def _due(pupils: Sequence[Pupil]) -> list[Pupil]:
    """Who learns next: those that are behind. One that was taken further in an earlier run waits for them."""
    unfinished = [pupil for pupil in pupils if not pupil.is_done]
    step = min((pupil.step for pupil in unfinished), default=0)
    return [pupil for pupil in unfinished if pupil.step == step]


def _endless(dataset: Dataset, tokens: int, seed: int) -> Iterator[Batch]:
    """Passes over the dataset, each in another order."""
    while True:
        yield from dataset.batches(tokens, seed)
        seed += 1


def _acceptance(talker: FrozenTalker, options: argparse.Namespace) -> TokensPerStep:
    sampling = sampling_of(options, options.repository / "talker" / "1")
    voice = Talker.of(talker.llama)
    encoder = options.repository / "encoder" / "1"
    calibration, held_out = (
        OwnSpeech(
            voice,
            read_prompts(encoder, Dataset(options.dataset, split), options.texts, seed=1),
            sampling,
            options.seed,
        )
        for split in ("calibration", "development")
    )
    has_trees = any(DRAFTERS[DraftShape.of(one.name).drafter].is_tree for one in options.recipe)
    return TokensPerStep(voice, calibration.plain() if has_trees else [], held_out)


def recipe_of(name: str) -> Recipe:
    """Raises argparse.ArgumentTypeError for a draft that has none."""
    if name not in RECIPES:
        raise argparse.ArgumentTypeError(f"{name!r}, allowed: {', '.join(RECIPES)}")
    return RECIPES[name]


def main() -> None:
    parser = argparse.ArgumentParser(prog="training.train_drafts", description=__doc__)
    add = parser.add_argument
    add("--recipe", type=recipe_of, nargs="+", required=True, metavar="NAME", help=", ".join(RECIPES))
    add("--until", type=int, help="stop at this step; the same command without it goes on from there")
    add("--repository", type=Path, default=Path("model_repository"), help="with the talker to draft for")
    add("--dataset", type=Path, default=Path("build/training/dataset.npz"), help="(%(default)s)")
    add("--out", type=Path, default=Path("build/training/drafts"), help="checkpoints and results")
    add("--start", type=Path, help="folder of drafts to go on from, of the same names, if of another talker")
    add("--measured", type=int, default=250, help="steps between two measurements of acceptance")
    add("--texts", type=int, default=16, help="spoken to measure acceptance")
    add_sampling(parser)
    trial = parser.add_argument_group(
        "for trials: the drafts' manifests tell what is not as usual"
    ).add_argument
    trial("--steps", type=int, help="of one round, instead of the recipe's rounds")
    trial("--tokens", type=int, default=POSITIONS, help="padded positions in a step")
    trial("--places", type=int, default=2_048, help="positions that heads learn from in a step")
    trial("--warm-up", type=int, default=40, help="steps until the peak learning rate")
    trial("--cooldown", type=float, default=0.4, help="share of a round that brings it down again")
    trial("--decay", type=float, default=0.05, help="weight decay of the hidden matrices")
    trial("--seed", type=int, default=1)
    options = parser.parse_args()
    options.trial = {
        name: value for name in _TRIALS if (value := getattr(options, name)) != parser.get_default(name)
    }
    train(options)


if __name__ == "__main__":
    main()
