"""Nodes by made-up costs and gains: many where steps are cheap, none where they are not."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import pytest
from talkahead.engine.draft_budget import DraftBudget

SIZES = (1, 4, 8, 16, 32, 64)
GAINS = {1: 1.0, 4: 1.7, 8: 2.1, 16: 2.4, 32: 2.6, 64: 2.7}
Cost = Callable[[int, int], float]


def memory_bound(rows: int, nodes: int) -> float:
    """Milliseconds: weights are read once, and every row of the step costs its share."""
    return 1.0 + 0.012 * rows * nodes


def full_by_rows(rows: int, nodes: int) -> float:
    return 0.1 + 0.2 * rows * nodes


def run(
    budget: DraftBudget, rows: int, steps: int, cost: Cost = memory_bound, noise: float = 0.0, seed: int = 0
) -> list[int]:
    """The sizes chosen; each step tells what it cost and brought."""
    chance = random.Random(seed)
    chosen = []
    for _ in range(steps):
        size = budget.choose(rows)
        chosen.append(size)
        slower = 1.0 + noise * abs(chance.gauss(0.0, 1.0))
        budget.observe_cost(rows, size, 1e-3 * cost(rows, size) * slower)
        spread = noise * chance.gauss(0.0, 1.0) if size > 1 else 0.0
        budget.observe_gain(size, max(GAINS[size] + spread, 1.0), rows)
    return chosen


def usual(chosen: list[int]) -> int:
    return max(set(chosen), key=chosen.count)


def best(rows: int, cost: Cost = memory_bound) -> int:
    return max(SIZES, key=lambda size: GAINS[size] / cost(rows, size))


def test_a_step_that_does_not_pay_is_stepped_over() -> None:
    """One drafted token brings less than it costs, three bring more."""
    budget = DraftBudget((1, 2, 4))
    for _ in range(500):
        size = budget.choose(1)
        budget.observe_cost(1, size, {1: 1e-3, 2: 1.6e-3, 4: 1.7e-3}[size])
        budget.observe_gain(size, {1: 1.0, 2: 1.5, 4: 2.5}[size], 1)
    assert budget.choose(1) == 4


@pytest.mark.parametrize("rows", [1, 2, 4, 8, 16])
def test_what_pays_most_is_found(rows: int) -> None:
    chosen = run(DraftBudget(SIZES), rows, 2_000)[-500:]
    worth = GAINS[usual(chosen)] / memory_bound(rows, usual(chosen))
    assert worth > 0.97 * GAINS[best(rows)] / memory_bound(rows, best(rows))


def test_many_nodes_for_few_streams_and_none_where_the_pool_is_full() -> None:
    budget = DraftBudget(SIZES)
    few, full = (usual(run(budget, rows, 2_000)[-500:]) for rows in (1, 16))
    assert few >= 16 > 8 >= full
    assert usual(run(DraftBudget(SIZES), 16, 2_000, full_by_rows)[-500:]) == 1
    assert usual(run(budget, 1, 200)[-100:]) == few  # and back when they have gone


def test_streams_without_a_draft_are_thought_of() -> None:
    """One stream that drafts among fifteen that do not: slower steps are theirs too."""
    budget = DraftBudget(SIZES)

    def cost(size: int) -> float:
        return 1.0 + 0.05 * (15 + size)

    for _ in range(2_000):
        size = budget.choose(16)
        budget.observe_cost(16, size, cost(size))
        budget.observe_gain(size, GAINS[size], 1, others=15.0)
    best_of_all = max(SIZES, key=lambda size: (15 + GAINS[size]) / cost(size))
    assert usual([budget.choose(16) for _ in range(100)]) == best_of_all == 1
    assert usual(run(budget, 1, 2_000)[-100:]) > 8


def test_a_load_that_is_new_begins_as_its_neighbour() -> None:
    budget = DraftBudget(SIZES)
    run(budget, 2, 2_000)
    assert budget.choose(3) == usual(run(budget, 2, 100))


@pytest.mark.parametrize("rows", [1, 16])
def test_noise_moves_nothing(rows: int) -> None:
    """Two sizes that are worth about the same: after it has settled it stays, but for trials."""
    budget = DraftBudget(SIZES)
    run(budget, rows, 4_000, noise=0.3)
    chosen = run(budget, rows, 4_000, noise=0.3, seed=1)
    settled = [usual(chosen[first : first + 40]) for first in range(0, 4_000, 40)]
    changes = sum(one != other for one, other in itertools.pairwise(settled))
    assert changes <= 4


def test_trials_cost_little() -> None:
    budget = DraftBudget(SIZES)
    run(budget, 4, 2_000)
    chosen = run(budget, 4, 6_400)
    assert sum(size != usual(chosen) for size in chosen) <= 6_400 * 9 // 128 + 9


def test_the_less_a_neighbour_promises_the_rarer_it_is_tried() -> None:
    """16 streams on a CPU with AVX2: two nodes bring 0.84 of the speed that none do, and three 0.7."""
    costs, gains = {1: 1.0, 2: 1.96, 3: 2.97}, {1: 1.0, 2: 1.65, 3: 2.07}
    budget, chosen = DraftBudget(tuple(costs)), list[int]()
    for _ in range(20_000):
        chosen.append(size := budget.choose(16))
        budget.observe_cost(16, size, 1e-3 * costs[size])
        budget.observe_gain(size, gains[size], 16)
    settled = chosen[4_000:]
    assert 9 <= settled.count(3) < settled.count(2)  # both, for what a step costs may change
    speed = sum(gains[size] for size in settled) / sum(costs[size] for size in settled)
    assert speed > 0.99


def test_a_machine_whose_speed_wanders_moves_as_good_as_nothing() -> None:
    """Others take much of it, for seconds at a time: what was seen then is no news of now."""
    budget, chosen = DraftBudget(SIZES), []
    run(budget, 1, 4_000)
    for index in range(12_000):
        size = budget.choose(1)
        slowness = 1.0 + 0.6 * (index // 700 % 2)
        chosen.append(size)
        budget.observe_cost(1, size, 1e-3 * memory_bound(1, size) * slowness)
        budget.observe_gain(size, GAINS[size], 1)
    settled = [usual(chosen[first : first + 40]) for first in range(0, 12_000, 40)]
    assert sum(one != other for one, other in itertools.pairwise(settled)) <= 2
    worth = min(GAINS[size] / memory_bound(1, size) for size in settled)
    assert worth > 0.97 * GAINS[best(1)] / memory_bound(1, best(1))


def test_steps_right_after_a_change_of_size_decide_nothing() -> None:
    """They cost three times as much as those after them, whatever the size: single steps would look bad."""
    budget, last, repeats, chosen = DraftBudget(SIZES), 0, 0, []
    for _ in range(4_000):
        size = budget.choose(1)
        repeats = repeats + 1 if size == last else 0
        last = size
        chosen.append(size)
        budget.observe_cost(1, size, memory_bound(1, size) * (3.0 if repeats < 3 else 1.0))
        budget.observe_gain(size, GAINS[size], 1)
    assert usual(chosen[-500:]) == best(1)


def test_an_interruption_does_not_count_for_what_it_took() -> None:
    budget = DraftBudget(SIZES)
    before = usual(run(budget, 1, 2_000)[-200:])
    budget.observe_cost(1, before, 10.0)
    assert usual(run(budget, 1, 200)) == before


def test_drafts_that_have_become_bad_are_left_off(monkeypatch: pytest.MonkeyPatch) -> None:
    budget = DraftBudget(SIZES)
    assert usual(run(budget, 8, 2_000)[-200:]) > 1
    monkeypatch.setitem(globals(), "GAINS", dict.fromkeys(SIZES, 1.0))
    assert usual(run(budget, 8, 12_000)[-500:]) == 1


RELATIVE_COSTS = {
    "tiles": {
        1: (1, 1.12, 1.16, 1.22, 1.4, 1.51),
        4: (1, 1.16, 1.34, 1.51, 2.09, 2.53),
        16: (1, 1.43, 2.04, 2.47, 3.83, 5.1),
    },
    "wide": {
        1: (1, 1.12, 1.21, 1.3, 1.48, 2.0),
        4: (1, 1.56, 1.9, 2.32, 3.4, 4.42),
        16: (1, 1.82, 2.62, 3.4, 5.0, 6.6),
    },
    "narrow": {
        1: (1, 1.3, 1.74, 2.2, 3.28, 4.11),
        4: (1, 1.99, 2.98, 4.0, 6.0, 8.0),
        16: (1, 1.96, 2.97, 4.0, 6.0, 8.0),
    },
}
"""Steps with trees of `TREES` in plain ones, by streams: much the shipped talker's on three kinds of CPU."""
TREES = {1: (0, 0.0), 2: (1, 0.65), 3: (2, 0.535), 4: (3, 0.443), 6: (3, 0.56), 8: (3, 0.617)}
"""By nodes: guesses, and the chance of each."""


class Forecast:
    """Costs and gains that are wrong by up to a tenth."""

    acceptance = True

    def __init__(self, costs: dict[int, float], gains: dict[int, float], seed: int) -> None:
        wrong = random.Random(seed)
        self._costs = {size: cost * wrong.uniform(0.9, 1.1) for size, cost in costs.items()}
        self._gains = {size: 1 + (gain - 1) * wrong.uniform(0.9, 1.1) for size, gain in gains.items()}

    def cost_s(self, nodes: int, rows: int) -> float:
        return 1e-3 * self._costs[nodes]

    def gain(self, nodes: int) -> float:
        return self._gains[nodes]

    def best_nodes(self, sizes: tuple[int, ...], rows: int) -> int:
        return max(sizes, key=lambda size: self._gains[size] / self._costs[size])


@pytest.mark.parametrize(("rows", "steps"), [(1, 1), (1, 12), (4, 1), (4, 3), (16, 1)])
@pytest.mark.parametrize("cpu", RELATIVE_COSTS)
def test_at_any_load_it_is_within_three_percent_of_the_best_fixed_size(
    cpu: str, rows: int, steps: int
) -> None:
    """With its trials, with steps and guesses that vary as they do, and with several steps a turn, the first
    of which cost half as much again after a change."""
    costs = dict(zip(TREES, RELATIVE_COSTS[cpu][rows], strict=True))
    gains = {size: 1 + guesses * chance for size, (guesses, chance) in TREES.items()}
    forecast, draw = Forecast(costs, gains, rows), random.Random(rows)
    budget = DraftBudget(tuple(TREES), forecast)  # type: ignore[arg-type]
    taken, brought, last = [], [], 1
    while len(taken) < 16_000 // steps:
        size = budget.choose(rows)
        guesses, chance = TREES[size]
        right = sum(draw.random() < chance for _ in range(rows * guesses * steps))
        cost = costs[size] * (1 + 0.15 * abs(draw.gauss(0.0, 1.0)))
        settling = 0.5 * min(3, steps) / steps if size != last and steps > 1 else 0.0
        last = size
        taken.append(costs[size] * (1 + settling))
        brought.append(gains[size])
        budget.observe_cost(rows, size, 1e-3 * cost * (1 + settling), steps)
        budget.observe_gain(size, 1 + right / rows / steps, rows * steps)
    settled = len(taken) // 4
    speed = sum(brought[settled:]) / sum(taken[settled:])
    assert speed > 0.97 * max(gains[size] / costs[size] for size in TREES)


def test_a_size_that_was_long_the_best_gives_way_when_it_is_so_no_more() -> None:
    """However much steps vary. Where their cost and the machine's level moved together, both wandered off,
    and the more a size was used, the cheaper it seemed."""
    draw = random.Random(1)
    before = {size: memory_bound(1, size) for size in SIZES}
    after = {size: cost * (1.0 if size <= 4 else 3.0) for size, cost in before.items()}

    def worth(sizes: list[int], costs: dict[int, float]) -> float:
        """Tokens a second, in shares of the best size's."""
        rate = sum(GAINS[size] for size in sizes) / sum(costs[size] for size in sizes)
        return rate / max(GAINS[size] / costs[size] for size in SIZES)

    budget, chosen = DraftBudget(SIZES), []
    for step in range(36_000):
        size = budget.choose(1)
        chosen.append(size)
        costs = before if step < 20_000 else after
        budget.observe_cost(1, size, 1e-3 * costs[size] * draw.lognormvariate(0.0, 0.5))
        budget.observe_gain(size, GAINS[size], 1)
    assert worth(chosen[18_000:20_000], before) > 0.9
    assert worth(chosen[-2_000:], after) > 0.9
