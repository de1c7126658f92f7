"""How all that the page of speculation measures is trained; manifests and the page are derived from it.

`python -m training --recipe NAME` makes one of them, with all that it needs, for the talker that is shipped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

POSITIONS = 6_000
"""Of a step, padded."""


@dataclass(frozen=True)
class Round:
    """So many steps, in which the learning rate rises to its peak, stays there, and falls."""

    steps: int
    rate: float


@dataclass(frozen=True)
class Recipe:
    """How the draft of a name learns; the name tells its kind and size (`draft_training.draft_shape`).

    Args:
        soft: share of the loss that asks for the talker's distribution; the rest asks for the tokens.
        fades: later heads or modules count less; else all count the same.
        cut_from: the draft whose first heads it is. It does not learn by itself.
        paper: whose design it is, down to the loss; else it is ours.
    """

    name: str
    rounds: tuple[Round, ...]
    soft: float
    fades: bool = True
    cut_from: str = ""
    paper: str = ""

    @property
    def steps(self) -> int:
        return sum(one.steps for one in self.rounds)

    @property
    def learner(self) -> str:
        """The name of what learns."""
        return self.cut_from or self.name

    @property
    def told(self) -> str:
        """All of it in words."""
        loss = f"{self.soft:.0%} of the loss the talker's own distribution"
        loss = loss if self.soft else "plain cross-entropy"
        weights = "" if self.fades else "; all count the same"
        cut = f"; the first of {self.cut_from}" if self.cut_from else ""
        return f"{self.steps:,} steps of {POSITIONS:,} positions{self._rates}; {loss}{weights}{cut}."

    @property
    def _rates(self) -> str:
        rates = [one.rate for one in self.rounds]
        if len(set(rates)) > 1:
            told = ", then ".join(f"{one.steps:,} at a peak rate of {one.rate:g}" for one in self.rounds)
            return f": {told}"
        steps = ", ".join(f"{one.steps:,}" for one in self.rounds)
        return f"{f' in rounds of {steps}' if len(rates) > 1 else ''} at a peak rate of {rates[0]:g}"

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Recipe:
        return cls(**{**fields, "rounds": tuple(Round(**one) for one in fields["rounds"])})


def command(name: str) -> str:
    """What trains a draft or a talker of the page, from the root of the repository."""
    return f"python -m training --recipe {name}"


SHIPPED = ("heads", "mtp", "draft_lm")
TUNED, SMALLER = "tuned", "smaller"
TALKERS = {TUNED: 1_400, SMALLER: 400}
"""Of talkers that are not shipped, the steps that they learn after the shipped one: `training.tune_base`, and
`training.train_talker` with its first nine layers."""
SMALLER_LAYERS = 9

_HEADS = (Round(850, 1.2e-3), Round(1_000, 1.2e-3), Round(1_000, 1.2e-3), Round(1_300, 1.2e-3))
_MODULES = (Round(850, 1.2e-3),)
_DEPTH = (Round(400, 1e-3),)
_ALL = (
    Recipe("heads", _HEADS, 0.8, cut_from="heads-6"),
    Recipe("heads-6", _HEADS, 0.8),
    Recipe("heads-blind", _HEADS, 0.0, paper="Li et al. 2025"),
    Recipe("mtp", _MODULES, 0.8),
    Recipe("mtp-1", _MODULES, 0.8),
    Recipe("mtp-blind", _MODULES, 0.0, fades=False, paper="Tian et al. 2025"),
    Recipe("mtp-1-blind", _MODULES, 0.0, fades=False, paper="Tian et al. 2025"),
    Recipe("draft_lm", (Round(850, 1.2e-3), Round(900, 1e-3)), 0.8),
    *(Recipe(f"draft_lm-{layers}", _DEPTH, 0.5) for layers in (1, 2, 3)),
)
RECIPES = {one.name: one for one in _ALL}
"""By name. What a paper proposed learns for as long as what is shipped of its kind."""
