"""A draft that learns from stored speech, step by step, with what a run needs to go on."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from talkahead.backbone.llama import Llama
from talkahead.draft_training.curriculum import Curriculum
from talkahead.draft_training.draft_losses import Teaching, weighted
from talkahead.draft_training.draft_shape import DraftShape
from talkahead.draft_training.fast_products import fast_products
from talkahead.draft_training.lesson import Lesson
from talkahead.draft_training.optimizers import optimizers_of
from talkahead.draft_training.stored_lessons import StoredLessons
from talkahead.draft_training.training_state import TrainingState
from talkahead.drafting.draft_heads import DraftHeads
from talkahead.drafting.mtp_modules import MtpModules

Network = DraftHeads | MtpModules | Llama
TABLES = ("embed_tokens", "lm_head", "linears")
"""Matrices that are no hidden ones."""
_DECAY = 0.05
_TIMED = 3
"""Steps after which a run says how long it takes."""
_SAVED_S = 600.0
"""Seconds of learning that are lost at most where a run is cut off."""
_PATIENCE = 5
"""Measurements without a better one, after which no more is to be learned at the peak's rate."""


class Learner:
    """Takes a network from step to step; the best one by held-out loss is what is kept.

    Args:
        shape: by which it learns.
        part: of the talker, that the network began from.
        validation: lessons of speech that is not learned from.
        folder: where the run is kept, so that it can go on.
        seconds: that the run may take; its rate falls as if they were all its steps.
        note: what else to tell of a network that was measured.
    """

    def __init__(
        self,
        network: Network,
        shape: DraftShape,
        part: Llama,
        curriculum: Curriculum,
        validation: Sequence[Lesson],
        folder: Path,
        seconds: float | None,
        note: Callable[[Network], str],
    ) -> None:
        self._network, self._fades = network, shape.fades
        self._curriculum, self._exam, self._seconds, self._note = curriculum, validation, seconds, note
        self._device = part.lm_head.weight.device
        self._teaching = Teaching(part, curriculum.places, shape.soft)
        self._judging = Teaching(part, curriculum.places)
        self._optimizers = optimizers_of(network, TABLES, _DECAY)
        self._state = TrainingState(folder / "run.pt", network, *self._optimizers)
        self._step = self._state.resume()
        notes = self._state.notes
        self._nats: list[list[float]] = notes.get("nats", [])
        self._best: dict[str, Tensor] = notes.get("best", {})
        self._spent: float = notes.get("seconds", 0.0)
        self._steps: int = notes.get("steps", curriculum.steps)

    def learn(self, lessons: StoredLessons, seed: int, say: Callable[[str], None]) -> int:
        """All that is left of the run; the network is then the best that it was. Returns the steps taken."""
        began, spent = time.monotonic(), self._spent
        saved = began
        for lesson in lessons.endless(seed, self._step):
            if self._progress >= 1.0:
                break
            torch.manual_seed(seed + self._step)
            self._take(lesson)
            self._step += 1
            now = time.monotonic()
            self._spent = spent + now - began
            if self._step == _TIMED:
                say(self._told_time)
            is_due = self._step % self._curriculum.every == 0 or self._progress >= 1.0
            if is_due:
                self._measure(say)
                self._hasten()
            if is_due or now - saved > _SAVED_S:
                self._save()
                saved = now
        if self._best:
            self._network.load_state_dict(self._best)
        return self._step

    @property
    def best_nats(self) -> list[float]:
        """Held-out, of each guess of the best network."""
        return min(self._nats, key=self._loss)

    @property
    def _progress(self) -> float:
        """0 to 1: of its steps, or of its time."""
        steps = self._step / self._steps
        return steps if self._seconds is None else max(steps, self._spent / self._seconds)

    @property
    def _told_time(self) -> str:
        a_step = self._spent / self._step
        left = (self._steps - self._step) * a_step
        if self._seconds is not None:
            left = max(0.0, min(left, self._seconds - self._spent))
        return f"{a_step:.2f} s a step: {math.ceil(left / 60)} minutes more at most"

    def _hasten(self) -> None:
        """Where no more is learned at the peak's rate, the run ends as soon as if it had been meant to be as
        short: much is learned only while the rate falls."""
        losses, plateau = list(map(self._loss, self._nats)), 1.0 - self._curriculum.schedule.decay
        is_stuck = len(losses) > _PATIENCE and min(losses[-_PATIENCE:]) > min(losses)
        if is_stuck and self._progress < plateau:
            self._steps = math.ceil(self._step / plateau)

    def _take(self, lesson: Lesson) -> None:
        rate = self._curriculum.schedule.rate(int(self._progress * self._curriculum.steps))
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(weighted(self._losses(self._teaching, lesson), fades=self._fades))
        nn.utils.clip_grad_norm_(self._network.parameters(), 1.0)
        for optimizer in self._optimizers:
            optimizer.step()

    def _losses(self, teaching: Teaching, lesson: Lesson) -> Tensor:
        with fast_products(self._device.type):
            return teaching.losses(self._network, lesson)

    def _measure(self, say: Callable[[str], None]) -> None:
        """Tells how held-out speech is followed."""
        self._network.eval()
        torch.manual_seed(0)
        with torch.no_grad():
            nats = torch.stack([self._losses(self._judging, lesson) for lesson in self._exam]).mean(0)
        self._nats.append(nats.tolist())
        if self._loss(self._nats[-1]) <= min(map(self._loss, self._nats)):
            self._best = {name: value.clone() for name, value in self._network.state_dict().items()}
        shown = " ".join(f"{one:.3f}" for one in self._nats[-1])
        say(
            f"step {self._step:,} of {self._steps:,}, held-out {shown} nats"
            f"{self._note(self._network)}, {self._told_time}"
        )
        self._network.train()

    def _save(self) -> None:
        self._state.notes = {
            "nats": self._nats,
            "best": self._best,
            "seconds": self._spent,
            "steps": self._steps,
        }
        self._state.save(self._step)

    def _loss(self, nats: list[float]) -> float:
        """As learning weights them."""
        return float(weighted(torch.tensor(nats), fades=self._fades))
