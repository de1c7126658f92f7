"""The table that drafts are trained by."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest
from talkahead.drafting.drafters import DRAFTERS

from instruments.draft_shape import DraftShape
from instruments.recipes import RECIPES, SHIPPED, Recipe, Round


def test_names_tell_shapes_and_what_is_shipped_is_one_of_each_drafter() -> None:
    assert all(RECIPES[name].name == name and DraftShape.of(name).name == name for name in RECIPES)
    assert {DraftShape.of(name).drafter for name in SHIPPED} == set(DRAFTERS)


def test_what_is_cut_from_another_learns_as_that_one() -> None:
    cut = [recipe for recipe in RECIPES.values() if recipe.cut_from]
    assert [recipe.name for recipe in cut] == ["heads"]
    for recipe in cut:
        whole, own = RECIPES[recipe.learner], DraftShape.of(recipe.name)
        assert (whole.rounds, whole.soft, whole.fades) == (recipe.rounds, recipe.soft, recipe.fades)
        assert DraftShape.of(whole.name).size > own.size
        assert DraftShape.of(whole.name).sees_tokens == own.sees_tokens


@pytest.mark.parametrize("name", [name for name, recipe in RECIPES.items() if recipe.paper])
def test_what_papers_proposed_is_blind_asked_for_tokens_and_learns_as_long_as_ours(name: str) -> None:
    """Li et al. 2025, section II-A: cross entropy times 0.8^i; Tian et al. 2025, equation 2: a plain sum."""
    recipe, shape = RECIPES[name], DraftShape.of(name)
    assert not shape.sees_tokens and recipe.soft == 0
    assert recipe.rounds == RECIPES[shape.drafter].rounds
    assert recipe.fades is (shape.drafter == "heads")


def test_every_blind_draft_is_a_papers_own() -> None:
    assert all(bool(one.paper) is name.endswith("-blind") for name, one in RECIPES.items())


def test_a_recipe_is_told_and_read_back() -> None:
    recipe = Recipe("mtp", (Round(850, 1.2e-3), Round(900, 1e-3)), 0.0, fades=False)
    assert recipe.told == (
        "1,750 steps of 6,000 positions: 850 at a peak rate of 0.0012, then 900 at a peak rate of 0.001; "
        "plain cross-entropy; all count the same."
    )
    same = Recipe("heads", (Round(850, 1.2e-3), Round(1_000, 1.2e-3)), 0.8, cut_from="heads-6")
    assert same.told == (
        "1,850 steps of 6,000 positions in rounds of 850, 1,000 at a peak rate of 0.0012; "
        "80% of the loss the talker's own distribution; the first of heads-6."
    )
    assert Recipe.from_json(json.loads(json.dumps(asdict(recipe)))) == recipe
