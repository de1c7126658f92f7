"""How many nodes a stream's tree is worth, by what steps cost and what they commit.

Many when few streams run; none when the pool is so full that they cost more than they bring.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from talkahead.engine.draft_forecast import SizeForecast
from talkahead.engine.running_mean import ENOUGH, RunningMean

_BUCKETS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
"""Numbers of rows up to which a row is held to cost the same."""
_LEVEL_MEMORY, _COST_MEMORY, _GAIN_MEMORY = 16, 128, 512
"""Observations that a running mean remembers, about. A gain is a small number of tokens, so it takes most."""
_SETTLING, _TRIAL = 3, 9
"""Steps after a change of size, which cost up to twice as much as those after them (caches, predictors) and
are not counted; and steps of a trial at least, which therefore is more than one turn, too."""
_REST = 20
"""Between trials of known neighbours at least, in trials; before that of an unknown one it is one."""
_MARGIN = 0.02
"""By this share a neighbour must be better, so that noise moves nothing."""
_TRIAL_SHARE = 0.005
"""Of the time, that trials of a neighbour may lose: the less it promises, the longer until it is tried again.
Without it, 16 streams of the shipped voice lost 5 % to trials on a CPU with AVX2, where two nodes cost 1.96
steps and bring 1.65 tokens, and three 2.97 and 2.07."""
_OUTLIER = 4.0
"""A step that takes so many times longer than usual was interrupted: it counts as this much longer."""


@dataclass
class _Trial:
    """The place of a size that is tried among rows of a bucket, from some step on."""

    bucket: int
    place: int
    began: int
    turns: int = 0


class DraftBudget:
    """Chooses among the sizes that a drafter offers the one that commits the most tokens per second.

    It begins with the best size of a forecast, or else with plain decoding, and climbs: to a size nearby, and
    on while that pays. Sizes near the chosen one are tried now and then, so that both sides of the comparison
    stay fresh.

    A turn is what follows a choice: a step, or some that native code takes one after the other.

    Args:
        sizes: nodes of a tree, root included, ascending; the first is 1, plain decoding.
        forecast: what steps cost and bring, until steps of a size have been seen.
    """

    def __init__(self, sizes: Sequence[int], forecast: SizeForecast | None = None) -> None:
        assert sizes[0] == 1 and list(sizes) == sorted(set(sizes))
        self._sizes = tuple(sizes)
        self._forecast = forecast
        self._costs: dict[tuple[int, int], RunningMean] = {}
        self._levels: dict[int, RunningMean] = {}
        """By bucket, how slow the machine is now, by the steps of the chosen size; costs are of level 1.

        So sizes compare as if measured side by side, on a machine whose speed wanders. The chosen size's cost
        stays as it is: moved by the same steps as the level, the two would wander off in opposite directions,
        and it would seem ever cheaper than others, which are seldom seen.
        """
        self._gains = {size: self._expected_gain(size) for size in self._sizes}
        self._gains[1] = RunningMean(_GAIN_MEMORY, 1.0, ENOUGH)
        self._others = RunningMean(_COST_MEMORY)
        self._chosen: dict[int, int] = {}
        """By bucket of rows, the place of the chosen size."""
        self._steps = 0
        self._tried: _Trial | None = None
        self._last_trial, self._trial_steps = 0, _TRIAL
        """The step at which one began or ended, and how many an ended one took."""
        self._tried_at: dict[tuple[int, int], int] = {}
        """By bucket and place, the step at which it was tried last."""
        self._last_size, self._repeats = 0, 0
        """The size of the last step, and how many steps before it were the same."""

    def choose(self, rows: int, most: int | None = None) -> int:
        """The size for a turn of so many rows, at most `most`; now and then one that is being tried."""
        bucket = _bucket(rows)
        self._steps += 1
        chosen = self._sizes[self._trial_place(bucket, self._settle(bucket))]
        if most is None or chosen <= most:
            return chosen
        return max((size for size in self._sizes if size <= most), default=1)

    def observe_cost(self, rows: int, size: int, seconds: float, steps: int = 1) -> None:
        """What each step of a turn of so many rows cost, drafting and all, in which ours had trees of this
        size."""
        repeats = self._repeats if size == self._last_size else 0
        self._last_size, self._repeats = size, repeats + steps
        self._steps += steps - 1
        if repeats < _SETTLING:
            return
        bucket, own = _bucket(rows), seconds / rows
        cost = self._cost(bucket, size)
        level = self._levels.setdefault(bucket, RunningMean(_LEVEL_MEMORY, 1.0, 1))
        if cost.is_known:
            own = min(own, _OUTLIER * cost.value * level.value)
        if cost.is_known and self._is_usual(bucket, size):
            level.add(own / cost.value)
        else:
            cost.add(own / level.value, min(steps, _TRIAL - _SETTLING))

    def _is_usual(self, bucket: int, size: int) -> bool:
        """Not one that is being tried, or all that a request allows."""
        return bucket in self._chosen and self._sizes[self._chosen[bucket]] == size

    def observe_gain(self, size: int, committed: float, rows: int, others: float = 0.0) -> None:
        """Tokens that each of our rows committed in a step with trees of this size, on average.

        Args:
            others: what rows of other methods committed in it, per row of ours: slower steps are theirs too.
        """
        self._others.add(others)
        if size > 1:
            self._gains[size].add(committed, rows)

    def _settle(self, bucket: int) -> int:
        place = self._chosen.get(bucket)
        if place is None:
            place = self._first_place(bucket)
        own = self._rate(bucket, place)
        if own is not None:
            rates = {other: self._rate(bucket, other) for other in self._neighbours(place)}
            better = {other: rate for other, rate in rates.items() if rate and rate > own * (1 + _MARGIN)}
            place = max(better, key=lambda other: better[other], default=place)
        self._chosen[bucket] = place
        return place

    def _first_place(self, bucket: int) -> int:
        """As forecast, else as for the nearest number of rows, else plain decoding."""
        if self._forecast is not None and self._forecast.acceptance is not None:
            return self._sizes.index(self._forecast.best_nodes(self._sizes, bucket))
        nearest = min(self._chosen, key=lambda other: abs(other - bucket), default=None)
        return 0 if nearest is None else self._chosen[nearest]

    def _cost(self, bucket: int, size: int) -> RunningMean:
        """Seconds a row, at level 1."""
        if (bucket, size) not in self._costs:
            forecast = self._forecast
            expected = None if forecast is None else forecast.cost_s(size, bucket) / bucket
            self._costs[bucket, size] = _expected(_COST_MEMORY, expected)
        return self._costs[bucket, size]

    def _expected_gain(self, size: int) -> RunningMean:
        return _expected(_GAIN_MEMORY, None if self._forecast is None else self._forecast.gain(size))

    def _trial_place(self, bucket: int, place: int) -> int:
        """The place of the size for this step: the chosen one, unless another is being tried."""
        tried = self._tried
        if tried is not None and tried.bucket != bucket:
            tried = None
        if tried is not None and self._is_over(tried):
            self._last_trial, self._trial_steps = self._steps, self._steps - tried.began
            tried = None
        self._tried = tried = tried or self._begun_trial(bucket, place)
        if tried is None:
            return place
        tried.turns += 1
        return tried.place

    def _is_over(self, tried: _Trial) -> bool:
        return tried.turns > 1 and self._steps - tried.began >= _TRIAL

    def _begun_trial(self, bucket: int, place: int) -> _Trial | None:
        """One that begins with this step."""
        other = self._due(bucket, place)
        if other is None:
            return None
        self._tried_at[bucket, other] = self._last_trial = self._steps
        return _Trial(bucket, other, self._steps)

    def _due(self, bucket: int, place: int) -> int | None:
        """The place of a size to try from this step on."""
        if self._rate(bucket, place) is None:
            return None
        neighbours = self._neighbours(place)
        unknown = [other for other in neighbours if self._rate(bucket, other) is None]
        passed = self._steps - self._last_trial
        if unknown:
            return unknown[0] if passed >= self._trial_steps else None
        if passed < _REST * self._trial_steps:
            return None
        waited = {other: self._steps - self._tried_at.get((bucket, other), 0) for other in neighbours}
        due = [other for other in neighbours if waited[other] >= self._spacing(bucket, place, other)]
        return max(due, key=lambda other: waited[other], default=None)

    def _spacing(self, bucket: int, place: int, other: int) -> float:
        """Steps from one trial of a known neighbour to the next: by what they lose, in steps as chosen."""
        own, neighbour = self._rate(bucket, place), self._rate(bucket, other)
        assert own is not None and neighbour is not None
        sizes = self._sizes[place], self._sizes[other]
        cost, more = (self._cost(bucket, size).value for size in sizes)
        return self._trial_steps * more / cost * max(0.0, 1 - neighbour / own) / _TRIAL_SHARE

    def _neighbours(self, place: int) -> list[int]:
        near = (
            place + 1,
            place - 1,
            place + 2,
            place - 2,
        )  # two away: a draft may pay only from two tokens on
        return [other for other in near if 0 <= other < len(self._sizes)]

    def _rate(self, bucket: int, place: int) -> float | None:
        """Tokens of all rows per second, up to a factor, or None while too little is known."""
        size = self._sizes[place]
        cost, gain = self._cost(bucket, size), self._gains[size]
        if not cost.is_known or not gain.is_known:
            return None
        return (gain.value + self._others.value) / cost.value


def _expected(memory: int, value: float | None) -> RunningMean:
    """A mean that begins with a forecast, if there is one, as if from an eighth of what it remembers."""
    return RunningMean(memory) if value is None else RunningMean(memory, value, max(memory // 8, ENOUGH))


def _bucket(rows: int) -> int:
    return next((edge for edge in _BUCKETS if rows <= edge), rows)
