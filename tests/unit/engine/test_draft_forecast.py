"""Which draft is worth it, by made-up costs and acceptance."""

from __future__ import annotations

import pytest
from talkahead.drafting.acceptance import Acceptance
from talkahead.engine.draft_budget import DraftBudget
from talkahead.engine.draft_forecast import DraftForecast
from talkahead.engine.step_costs import StepCost, StepCosts
from talkahead.speculation.pairs import PLAIN, DraftSizes, Pair

SIZES = {"heads": DraftSizes((2, 4, 8, 16), 8), "draft_lm": DraftSizes((2, 3, 4, 5), 4)}
COUNTED = {
    "heads": Acceptance("", 100, 0.7, 0.95, {2: 1.5, 4: 1.9, 8: 2.2, 16: 2.5}),
    "draft_lm": Acceptance("", 100, 0.7, 0.95, {2: 1.6, 3: 2.0, 4: 2.2, 5: 2.3}),
}


def costs(node: float, draft_lm: float = 0.2) -> StepCosts:
    """A plain step of one stream costs 1, each node more `node`; drafts of the model cost extra."""
    measured = []
    for rows in (1, 4, 16):
        plain = 1.0 + node * (rows - 1)
        measured.append(StepCost("none", 1, rows, plain))
        measured += [StepCost("heads", nodes, rows, plain + node * rows * (nodes - 1)) for nodes in (2, 4, 8)]
        measured += [
            StepCost("draft_lm", nodes, rows, plain + (node * rows + draft_lm) * (nodes - 1))
            for nodes in (2, 4)
        ]
    return StepCosts(tuple(measured))


@pytest.mark.parametrize(
    ("drafter", "nodes", "rows", "expected"),
    [
        ("none", 1, 1, 1.0),
        ("heads", 1, 4, 1.3),
        ("heads", 4, 1, 1.3),
        ("heads", 3, 1, 1.2),  # between sizes
        ("heads", 16, 1, 2.5),  # beyond them
        ("heads", 2, 8, 2.5),  # between numbers of streams
        ("draft_lm", 3, 1, 1.6),
    ],
)
def test_costs_lie_on_lines_between_those_measured(
    drafter: str, nodes: int, rows: int, expected: float
) -> None:
    assert costs(0.1).seconds(drafter, nodes, rows) == pytest.approx(expected)


def test_a_larger_draft_is_never_held_to_cost_less() -> None:
    """One figure that came out too high must not make what lies beyond it look cheap."""
    measured = [StepCost("none", 1, 1, 1.0), StepCost("heads", 2, 1, 2.0), StepCost("heads", 4, 1, 1.6)]
    found = StepCosts(tuple(measured))
    assert [found.seconds("heads", nodes, 1) for nodes in (2, 3, 4)] == [2.0, 2.0, 2.0]
    assert found.seconds("heads", 16, 1) == pytest.approx(2.0 + 12 / 3)


def test_what_was_not_measured_is_not_guessed() -> None:
    with pytest.raises(KeyError):
        costs(0.1).seconds("mtp", 2, 1)
    assert DraftForecast(costs(0.1), COUNTED).of("mtp") is None


def test_a_speed_up_is_tokens_over_cost() -> None:
    heads = DraftForecast(costs(0.1), COUNTED).of("heads")
    assert heads is not None
    assert heads.speed_up(4, 1) == pytest.approx(1.9 / 1.3)
    assert heads.speed_up(8, 16) == pytest.approx(2.2 * 2.5 / (2.5 + 1.6 * 7))
    assert heads.best_nodes((1, 2, 4, 8), 1) == 4
    assert heads.best_nodes((1, 2, 4, 8), 16) == 1  # nothing there is worth it


def test_the_fastest_drafter_is_chosen_over_all_numbers_of_streams() -> None:
    assert DraftForecast(costs(0.1), COUNTED).fastest_pair("match", SIZES) == Pair("heads", "match")
    quick = DraftForecast(costs(0.1, draft_lm=0.0), COUNTED)
    assert quick.fastest_pair("match", SIZES) == Pair("draft_lm", "match")
    assert quick.fastest_pair("tolerance", {"heads": SIZES["heads"]}) == Pair("heads", "tolerance")
    assert quick.fastest_pair("ratio", {"heads": SIZES["heads"]}) == PLAIN  # they do not go together


def test_where_nothing_pays_nothing_is_drafted() -> None:
    forecast = DraftForecast(costs(1.0, draft_lm=1.0), COUNTED)
    assert forecast.fastest_pair("match", SIZES) == PLAIN
    assert forecast.speed_ups("heads", SIZES["heads"]) == {1: 1.0, 4: 1.0, 16: 1.0}


def test_a_draft_that_nobody_counted_is_not_chosen() -> None:
    assert DraftForecast(costs(0.01)).fastest_pair("match", SIZES) == PLAIN


def test_a_budget_begins_with_the_forecast_s_best_size() -> None:
    heads = DraftForecast(costs(0.1), COUNTED).of("heads")
    budget = DraftBudget((1, 2, 4, 8, 16), heads)
    assert budget.choose(1) == 4
    assert budget.choose(16) == 1


def test_a_budget_leaves_a_forecast_that_does_not_come_true() -> None:
    """Wide steps cost three times what was measured: it goes down, and stays there."""
    heads = DraftForecast(costs(0.1), COUNTED).of("heads")
    budget = DraftBudget((1, 2, 4, 8, 16), heads)
    chosen = []
    for _ in range(4_000):
        size = budget.choose(1)
        chosen.append(size)
        budget.observe_cost(1, size, 1.0 + 0.9 * (size - 1))
        budget.observe_gain(size, COUNTED["heads"].of(size), 1)
    assert chosen[:1] == [4]
    assert chosen[-200:].count(1) > 180
