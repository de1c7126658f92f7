"""When a run ends, what it says of its time, and what is kept of it meanwhile."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.backbone.llama import Llama
from talkahead.draft_training import learner as module
from talkahead.draft_training.curriculum import Curriculum
from talkahead.draft_training.draft_shape import DraftShape
from talkahead.draft_training.learner import Learner
from talkahead.draft_training.lesson import Lesson
from talkahead.draft_training.stored_lessons import StoredLessons

STATES = torch.randn(1, 1, 16, generator=torch.Generator().manual_seed(0)).expand(1, 8, 16)
SHAPE = DraftShape.of("heads-blind")


def lesson_of(token: int) -> Lesson:
    return Lesson(STATES[:, :0], torch.zeros(1, dtype=torch.int64), STATES, torch.full((1, 8), token))


class Repeated:
    """One lesson, again and again; so often, and then it is broken off.

    Args:
        often: None: for ever.
    """

    def __init__(self, often: int | None = None) -> None:
        self._often = often
        self.begun = 0

    def endless(self, seed: int, first: int) -> Iterator[Lesson]:
        self.begun = first
        for number in itertools.count(first):
            if number == self._often:
                raise KeyboardInterrupt
            yield lesson_of(3)


def learner_of(folder: Path, steps: int, every: int) -> Learner:
    """Its lesson and its exam say the opposite, so that it is best before its first step."""
    torch.manual_seed(0)
    talker = Llama(DecoderConfig(21, 20, 16, 32, 3, 1, 1, 16)).requires_grad_(False)
    heads = SHAPE.begin(talker, 16).requires_grad_(True)
    curriculum = Curriculum(steps, rate=0.05, places=8, positions=8, every=every)
    return Learner(heads, SHAPE, talker, curriculum, [lesson_of(4)], folder, None, lambda network: "")


def test_a_run_that_learns_no_more_ends_sooner_and_its_rate_falls_before(tmp_path: Path) -> None:
    learner, rates, said = learner_of(tmp_path, 1_000, every=10), list[float](), list[str]()

    def note(line: str) -> None:
        if line.startswith("step "):
            said.append(line)
            rates.append(cast("Any", learner)._optimizers[1].param_groups[0]["lr"])

    steps = learner.learn(cast("StoredLessons", Repeated()), 1, note)
    assert f"step {steps} of {steps}," in said[-1] and "step 10 of 1,000," in said[0]
    stuck = [" of 1,000," in line for line in said].index(False)
    assert steps == 10 * len(said) < 500
    assert rates[-1] < 0.2 * rates[stuck - 1] and rates[stuck:] == sorted(rates[stuck:], reverse=True)


def test_a_slow_run_says_early_how_long_it_takes_and_goes_on_from_ten_minutes_ago(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its steps take 90 seconds, and it is broken off in the twelfth, long before anything is measured."""
    said: list[str] = []
    clock = itertools.count(0, 90)
    monkeypatch.setattr(module.time, "monotonic", lambda: float(next(clock)))
    with pytest.raises(KeyboardInterrupt):
        learner_of(tmp_path, 100, every=100).learn(cast("StoredLessons", Repeated(11)), 1, said.append)
    assert said == ["90.00 s a step: 146 minutes more at most"]
    again = Repeated(20)
    with pytest.raises(KeyboardInterrupt):
        learner_of(tmp_path, 100, every=100).learn(cast("StoredLessons", again), 1, said.append)
    assert again.begun == 7
