"""Intervals whose width can be told beforehand."""

from __future__ import annotations

import pytest

from instruments.percentages import Difference


def test_the_interval_of_equal_differences_is_a_point() -> None:
    found = Difference.of_percents([1, 1, 1], [10, 10, 10])
    assert (found.value, found.low, found.high) == pytest.approx((10, 10, 10))
    found = Difference.of_means([0.5, 0.5])
    assert (found.value, found.low, found.high) == pytest.approx((0.5, 0.5, 0.5))


def test_long_sentences_count_for_more() -> None:
    assert Difference.of_percents([1, 0], [10, 90]).value == pytest.approx(1)


def test_the_interval_widens_with_the_spread() -> None:
    words = [10] * 200
    narrow = Difference.of_percents([0, 2] * 100, words)
    wide = Difference.of_percents([-9, 11] * 100, words)
    mean = Difference.of_means([-0.9, 1.1] * 100)
    assert narrow.high - narrow.low == pytest.approx(2 * 1.96 * 10 / 200**0.5, rel=0.1)
    assert wide.high - wide.low == pytest.approx(10 * (narrow.high - narrow.low), rel=0.01)
    assert (wide.low, wide.high) == pytest.approx((100 * mean.low, 100 * mean.high))
