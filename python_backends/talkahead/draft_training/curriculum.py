"""How much, how fast and in what portions a draft learns from so much speech."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from talkahead.draft_training.schedule import Schedule

_PASSES = 20
"""Over the speech."""
_BYTES = 1 << 30
"""That logits of a step may take: vocabularies are what a step is made of."""
_WIDE, _KEPT = 16, 4
"""Bytes of each logit: while a guess is judged, and then until all of them are."""
_FEWEST, _MOST = 64, 2_048
_SPREAD = 3
"""Heads learn from one place of so many in a batch: neighbours are alike."""
_MEASURED, _OFTEN, _RARELY = 20, 20, 100
"""Times in a run, and steps between two of them: a run that is cut off goes on from there."""


@dataclass(frozen=True)
class Curriculum:
    """The steps of one run.

    Args:
        rate: the learning rate's peak.
        places: that are learned from in a step; each has the whole vocabulary to itself.
        positions: padded, of a batch.
        every: steps between two measurements, when the run is saved too.
    """

    steps: int
    rate: float
    places: int
    positions: int
    every: int

    @classmethod
    def of(
        cls, tokens: int, vocabulary: int, guesses: int, rate: float, *, spreads: bool, steps: int | None
    ) -> Self:
        """From the speech there is.

        Args:
            guesses: of the draft at each place.
            spreads: whether it learns from some places of a batch, or from all.
            steps: that are asked for; None: as many as the speech is worth.
        """
        places = _BYTES // (vocabulary * (_WIDE + _KEPT * guesses))
        places = min(max(places, _FEWEST), _MOST)
        steps = steps or max(_PASSES * tokens // places, 1)
        positions = _SPREAD * places if spreads else places
        return cls(steps, rate, places, positions, min(max(steps // _MEASURED, _OFTEN), _RARELY))

    @property
    def schedule(self) -> Schedule:
        return Schedule(self.rate, self.steps, warm_up=min(40, 1 + self.steps // 10), decay=0.4)
