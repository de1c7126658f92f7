"""Trainings multiply in bfloat16 where that is fast, and nowhere else."""

from __future__ import annotations

import pytest
import torch
from talkahead.draft_training import fast_products as module
from talkahead.draft_training.fast_products import fast_products


@pytest.mark.parametrize("has, kind", [(True, torch.bfloat16), (False, torch.float32)])
def test_products_are_narrow_where_the_cpu_has_them(
    has: bool, kind: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "has_bfloat16_products", lambda: has)
    one = torch.ones(4, 4)
    with fast_products():
        assert (one @ one).dtype is kind
