"""When a run ends."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from pathlib import Path
from typing import Any, cast

import torch
from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.backbone.llama import Llama
from talkahead.draft_training.curriculum import Curriculum
from talkahead.draft_training.draft_shape import DraftShape
from talkahead.draft_training.learner import Learner
from talkahead.draft_training.lesson import Lesson
from talkahead.draft_training.stored_lessons import StoredLessons

STEPS, EVERY = 1_000, 10


class Repeated:
    """One lesson, for ever."""

    def __init__(self, lesson: Lesson) -> None:
        self._lesson = lesson

    def endless(self, seed: int, first: int) -> Iterator[Lesson]:
        return repeat(self._lesson)


def test_a_run_that_learns_no_more_ends_sooner_and_its_rate_falls_before(tmp_path: Path) -> None:
    """Its lesson and its exam say the opposite, so that it is best before its first step."""
    torch.manual_seed(0)
    talker = Llama(DecoderConfig(21, 20, 16, 32, 3, 1, 1, 16)).requires_grad_(False)
    states = torch.randn(1, 1, 16).expand(1, 8, 16)
    taught, asked = (
        Lesson(states[:, :0], torch.zeros(1, dtype=torch.int64), states, torch.full((1, 8), token))
        for token in (3, 4)
    )
    shape = DraftShape.of("heads-blind")
    heads = shape.begin(talker, 16).requires_grad_(True)
    curriculum = Curriculum(STEPS, rate=0.05, places=8, positions=8, every=EVERY)
    rates: list[float] = []
    said: list[str] = []
    learner = Learner(heads, shape, talker, curriculum, [asked], tmp_path, None, lambda network: "")

    def note(line: str) -> None:
        said.append(line)
        rates.append(cast("Any", learner)._optimizers[1].param_groups[0]["lr"])

    steps = learner.learn(cast("StoredLessons", Repeated(taught)), 1, note)
    assert f"step {steps} of {steps}," in said[-1] and f"step {EVERY} of {STEPS:,}," in said[0]
    stuck = [f" of {STEPS:,}," in line for line in said].index(False)
    assert steps == EVERY * len(said) < STEPS / 2
    assert rates[-1] < 0.2 * rates[stuck - 1] and rates[stuck:] == sorted(rates[stuck:], reverse=True)
