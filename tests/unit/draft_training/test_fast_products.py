"""Trainings multiply in bfloat16 where that is fast, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from talkahead.draft_training import fast_products as module
from talkahead.draft_training.fast_products import fast_products, is_bfloat16_faster


@pytest.fixture(autouse=True)
def _measured_anew() -> Iterator[None]:
    is_bfloat16_faster.cache_clear()
    yield
    is_bfloat16_faster.cache_clear()


@pytest.mark.parametrize(
    "has, seconds, kind",
    [(True, 0.5, torch.bfloat16), (True, 2.0, torch.float32), (False, 0.5, torch.float32)],
    ids=["faster", "slower", "imitated"],
)
def test_products_are_narrow_where_that_is_faster(
    has: bool, seconds: float, kind: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "has_bfloat16_products", lambda: has)
    monkeypatch.setattr(module, "_seconds", {torch.bfloat16: seconds, torch.float32: 1.0}.__getitem__)
    one = torch.ones(4, 4)
    with fast_products():
        assert (one @ one).dtype is kind


def test_products_are_timed_in_both_precisions() -> None:
    assert all(module._seconds(precision) > 0 for precision in (torch.bfloat16, torch.float32))
