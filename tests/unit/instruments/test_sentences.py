"""Splits depend on the text alone."""

from __future__ import annotations

from collections import Counter

import pytest

from instruments.patterns import CATEGORIES, made_up, pattern_of
from instruments.sentences import SPLITS, assorted, categories, conversation, split_of


def test_splits_are_fixed_and_of_the_stated_sizes() -> None:
    counts = Counter(split_of(f"sentence number {index}.") for index in range(20_000))
    assert set(counts) == set(SPLITS)
    for split in SPLITS[1:]:
        assert 300 < counts[split] < 500  # 2 % of 20,000, give or take five standard deviations
    assert split_of("The same text.") == split_of("the same text.")


@pytest.mark.needs("wordnet")
@pytest.mark.parametrize("category", CATEGORIES)
def test_made_up_sentences_repeat_with_their_seed(category: str) -> None:
    assert list(made_up(category, 50, seed=7)) == list(made_up(category, 50, seed=7))
    assert list(made_up(category, 50, seed=7)) != list(made_up(category, 50, seed=8))


@pytest.mark.parametrize(
    "text", ["on foot.", "press down tightly.", "in a futile manner.", "No, you are wrong."]
)
def test_prose_that_might_be_a_reply_is_split_as_prose(text: str) -> None:
    assert pattern_of(text) is None


@pytest.mark.needs("wordnet")
def test_what_is_made_from_patterns_goes_on_when_the_first_of_it_is_used_up() -> None:
    first_of_it = len(conversation())
    texts = assorted("train", 5 * first_of_it)
    later = texts[-4_000:]
    assert len(set(texts)) == 5 * first_of_it
    assert sum(pattern_of(text) is not None for text in later) > 1_500


@pytest.mark.needs("wordnet")
def test_categories_are_held_out_and_share_nothing() -> None:
    chosen = categories("test", 84)
    assert {name: len(texts) for name, texts in chosen.items()} == dict.fromkeys(chosen, 84)
    everything = [text for texts in chosen.values() for text in texts]
    assert len(set(everything)) == len(everything)
    assert {split_of(text) for text in everything} == {"test"}
