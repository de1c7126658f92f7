"""Splits depend on the text alone."""

from __future__ import annotations

from collections import Counter

from training.sentences import SPLITS, made_up, split_of


def test_splits_are_fixed_and_of_the_stated_sizes() -> None:
    counts = Counter(split_of(f"sentence number {index}.") for index in range(20_000))
    assert set(counts) == set(SPLITS)
    for split in SPLITS[1:]:
        assert 300 < counts[split] < 500  # 2 % of 20,000, give or take five standard deviations
    assert split_of("The same text.") == split_of("the same text.")


def test_made_up_sentences_repeat_with_their_seed() -> None:
    assert list(made_up(50)) == list(made_up(50))
    assert list(made_up(50)) != list(made_up(50, seed=8))
