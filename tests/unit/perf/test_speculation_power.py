"""What comparisons could have shown, against counting and against exact tails."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from perf.speculation.power import Ablation, detectable, fewest_of_one_kind, share_noticed
from perf.speculation.quality import Spoken

RIGHT = Spoken("a", 41, 20, 2.0, 1, 10, 4.0, "right")
OTHER, LATE = replace(RIGHT, digest="b"), replace(RIGHT, digest="b", ending="late")


def test_what_is_detectable_is_shown_four_times_in_five() -> None:
    """Of normal differences with a known interval: 20,000 draws, five standard errors."""
    half = 0.7
    true = detectable(-half, half)
    drawn = np.random.default_rng(0).normal(true, half / 1.959964, 20_000)
    assert abs((drawn - half > 0).mean() - 0.8) < 5 * (0.8 * 0.2 / 20_000) ** 0.5


def test_fewer_than_six_of_one_kind_are_no_sign() -> None:
    count = fewest_of_one_kind()
    assert count == 6 and 2 * 0.5**count <= 0.05 < 2 * 0.5 ** (count - 1)


@pytest.mark.parametrize("sentences", [20, 96, 504])
def test_a_share_that_is_noticed_brings_so_many_four_times_in_five(sentences: int) -> None:
    drawn = np.random.default_rng(0).binomial(sentences, share_noticed(sentences), 20_000)
    assert abs((drawn >= fewest_of_one_kind()).mean() - 0.8) < 5 * (0.8 * 0.2 / 20_000) ** 0.5


@pytest.mark.parametrize(
    ("without", "verdict"),
    [
        ([LATE] * 5 + [RIGHT] * 15, "nothing: 5 of 20 differ, and fewer than 6 cannot show any"),
        ([OTHER] * 9 + [RIGHT] * 11, "no difference of endings"),
        ([LATE] * 5 + [OTHER] * 15, "no difference of endings"),
        ([LATE] * 6 + [RIGHT] * 14, "more wrong endings"),
    ],
)
def test_an_ablation_shows_no_more_than_it_can(without: list[Spoken], verdict: str) -> None:
    assert Ablation.of(without, [RIGHT] * 20).verdict == verdict


def test_an_ablation_counts_sentence_by_sentence() -> None:
    found = Ablation.of([replace(LATE, edits=3), RIGHT, OTHER], [RIGHT, LATE, RIGHT])
    assert (found.sentences, found.differ, found.worse, found.better) == (3, 3, 1, 1)
    assert found.difference == pytest.approx(100 * 2 / 30)
    assert Ablation.of([RIGHT] * 20, [LATE] * 8 + [RIGHT] * 12).verdict == "fewer wrong endings"
