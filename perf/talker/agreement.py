"""Whether two talkers are the same model: what both say when nothing is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Self

from talkahead.config import RequestOptions

from perf.talker.talker import Prompt, Talker


@dataclass(frozen=True)
class Agreement:
    """Of the most likely frames that two talkers speak.

    Args:
        same: of so many prompts, both said the same to the end.
        frames: of the first talker, of all prompts.
        parted_prompt, parted_frame: the earliest frame in which they differ; None where they never do.
    """

    prompts: int
    same: int
    frames: int
    parted_prompt: int | None
    parted_frame: int | None

    @classmethod
    def of(cls, one: Talker, other: Talker, prompts: Sequence[Prompt], options: RequestOptions) -> Self:
        greedy = replace(options, temperature=0.0)
        mine, its = (talker.speak(prompts, greedy, seed=0) for talker in (one, other))
        parted = [
            (frame, prompt)
            for prompt, pair in enumerate(zip(mine, its, strict=True))
            if (frame := _parting(*pair)) is not None
        ]
        frame, prompt = min(parted, default=(None, None))
        return cls(len(prompts), len(prompts) - len(parted), sum(map(len, mine)), prompt, frame)

    @property
    def is_same_model(self) -> bool:
        """Rounding may part a few of them where two frames are equally likely."""
        return 2 * self.same > self.prompts

    def __str__(self) -> str:
        if self.parted_frame is None:
            return f"the same {self.frames} most likely frames for all of {self.prompts} texts"
        return (
            f"the same most likely frames for {self.same} of {self.prompts} texts; they first differ at "
            f"frame {self.parted_frame} of text {self.parted_prompt}"
        )


def _parting(one: Sequence[int], other: Sequence[int]) -> int | None:
    return next((at for at, (mine, its) in enumerate(zip_longest(one, other)) if mine != its), None)
