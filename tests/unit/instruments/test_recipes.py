"""What is trained to be compared."""

from __future__ import annotations

import pytest
from talkahead.draft_training.draft_shape import DraftShape
from talkahead.drafting.drafters import DRAFTERS

from instruments.recipes import DRAFTS, PAPERS, SHIPPED, TALKERS, told


def test_names_tell_shapes_and_what_is_shipped_is_one_of_each_drafter() -> None:
    assert all(DraftShape.of(name).name == name for name in DRAFTS)
    assert {DraftShape.of(name).drafter for name in SHIPPED} == set(DRAFTERS)
    assert not set(SHIPPED) & set(PAPERS)


@pytest.mark.parametrize("name", DRAFTS)
def test_what_papers_proposed_is_blind_and_asked_for_tokens(name: str) -> None:
    """Li et al. 2025, section II-A: cross entropy times 0.8^i; Tian et al. 2025, equation 2: a plain sum."""
    shape = DraftShape.of(name)
    assert (name in PAPERS) is (not shape.sees_tokens) is (shape.soft == 0)
    assert shape.fades is not (name in PAPERS and shape.drafter == "mtp")


def test_it_is_told_how_each_learns() -> None:
    assert told("mtp-1-blind") == (
        "`talkahead drafts train --drafter mtp --heads 1 --blind`: cross-entropy; all count the same"
    )
    assert told("heads") == (
        "`talkahead drafts train --drafter heads`: 80% of the loss the talker's own distribution"
    )
    assert all(f"{steps:,} steps" in told(name) for name, steps in TALKERS.items())
