"""Rows find what is kept by slot, and put it back, as views only where that is safe."""

from __future__ import annotations

import pytest
import torch
from talkahead.speculation.rows import Rows


@pytest.mark.parametrize(
    ("slots", "is_view"),
    [([4], True), ([2, 3, 4], True), (range(5), True), ([3, 2], False), ([0, 2], False), ([2, 4, 3], False)],
)
def test_what_was_taken_is_put_back_where_it_lay(slots: list[int] | range, is_view: bool) -> None:
    rows, column = Rows.of(slots), torch.arange(10).view(5, 2)
    expected = column.clone()
    expected[list(slots)] += 100
    taken = rows.take(column)
    assert taken.tolist() == [[2 * slot, 2 * slot + 1] for slot in slots] and taken.is_contiguous()
    assert (rows.view is not None) == is_view
    taken += 100
    assert torch.equal(column, expected) == is_view
    rows.put(column, taken)
    assert torch.equal(column, expected)
