"""Samples to figures, figures to tables."""

from __future__ import annotations

from instruments import report
from instruments.report import Spread


def test_a_spread_of_nothing_is_not_a_number() -> None:
    assert Spread.of([1.0, 2.0, 3.0]) == Spread(3, 2.0, 2.9)
    assert str(Spread.of([]).p50) == "nan"


def test_a_table_is_aligned() -> None:
    assert report.table([{"a": "1", "long": "x"}, {"a": "22", "long": "y"}]) == " a  long\n 1     x\n22     y"
