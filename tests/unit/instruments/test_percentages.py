"""Intervals whose width can be told beforehand."""

from __future__ import annotations

import pytest

from instruments.percentages import bootstrap_interval


def test_the_interval_of_equal_differences_is_a_point() -> None:
    assert bootstrap_interval([1, 1, 1], [10, 10, 10]) == pytest.approx((10, 10))


def test_the_interval_widens_with_the_spread() -> None:
    words = [10] * 200
    narrow = bootstrap_interval([0, 2] * 100, words)
    wide = bootstrap_interval([-9, 11] * 100, words)
    assert narrow[1] - narrow[0] == pytest.approx(2 * 1.96 * 10 / 200**0.5, rel=0.1)
    assert wide[1] - wide[0] == pytest.approx(10 * (narrow[1] - narrow[0]), rel=0.01)
