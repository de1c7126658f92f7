"""What a comparison of two methods over the same sentences could have shown, and what it could not.

A difference is held to be shown at the level LEVEL; what is detectable would be shown with the chance POWER.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Self

from instruments.percentages import Difference
from perf.speculation.evaluation import Ending
from perf.speculation.quality import Spoken

LEVEL, POWER = 0.05, 0.8
_SIDE = NormalDist().inv_cdf(1 - LEVEL / 2)
_FACTOR = (_SIDE + NormalDist().inv_cdf(POWER)) / (2 * _SIDE)


def detectable(low: float, high: float) -> float:
    """The smallest true difference that would have been shown, of one with this 95 % interval."""
    return _FACTOR * (high - low)


def fewest_of_one_kind() -> int:
    """Sentences that must have changed, all for the worse, for a sign test to show anything."""
    return math.ceil(math.log2(2 / LEVEL))


def share_noticed(sentences: int) -> float:
    """The smallest share of sentences spoilt, and none mended, of which so many would be met with POWER."""
    low, high = 0.0, 1.0
    for _ in range(40):
        share = (low + high) / 2
        missed = sum(
            math.comb(sentences, count) * share**count * (1 - share) ** (sentences - count)
            for count in range(min(fewest_of_one_kind(), sentences + 1))
        )
        low, high = (low, share) if 1 - missed >= POWER else (share, high)
    return high


@dataclass(frozen=True)
class Ablation:
    """A method without a check beside the same with it, sentence by sentence.

    Args:
        differ: sentences whose tokens are not the same.
        worse, better: sentences that end wrongly without the check alone, and with it alone.
        difference, low, high: word errors without less those with it, in points, with a 95 % interval.
    """

    sentences: int
    differ: int
    worse: int
    better: int
    difference: float
    low: float
    high: float

    @classmethod
    def of(cls, without: Sequence[Spoken], checked: Sequence[Spoken]) -> Self:
        pairs = list(zip(without, checked, strict=True))
        edits, words = [one.edits - other.edits for one, other in pairs], [one.words for one in without]
        wrong = [(one.ending != Ending.RIGHT, other.ending != Ending.RIGHT) for one, other in pairs]
        more = Difference.of_percents(edits, words)
        return cls(
            sentences=len(pairs),
            differ=sum(one.digest != other.digest for one, other in pairs),
            worse=sum(one and not other for one, other in wrong),
            better=sum(other and not one for one, other in wrong),
            difference=more.value,
            low=more.low,
            high=more.high,
        )

    @property
    def verdict(self) -> str:
        """What it shows of endings."""
        fewest = fewest_of_one_kind()
        if self.differ < fewest:
            return (
                f"nothing: {self.differ} of {self.sentences} differ, and fewer than {fewest} cannot show any"
            )
        changed = self.worse + self.better
        tail = sum(math.comb(changed, count) for count in range(min(self.worse, self.better) + 1))
        if changed and 2 * tail / 2**changed <= LEVEL:
            return "more wrong endings" if self.worse > self.better else "fewer wrong endings"
        return "no difference of endings"
