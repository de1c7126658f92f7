"""Weights as native code reads them: four bits each, in groups with a scale."""

from __future__ import annotations

import torch
from talkahead.backbone.native_matrix import GROUP, in_groups


def test_groups_that_four_bits_hold_are_kept_exactly() -> None:
    """As files of such weights have them: whole numbers down to -8, times a scale."""
    whole = torch.randint(-8, 8, (5, 3, GROUP)).float()
    whole[:, :, 0] = -8
    scales = (torch.rand(5, 3, 1) + 0.25).bfloat16().float()
    found, own = in_groups((whole * scales).flatten(1))
    assert torch.equal(found, whole.flatten(1)) and torch.equal(own, scales[..., 0])


def test_no_weight_is_further_away_than_half_a_step_but_the_largest_of_the_other_sign() -> None:
    weight = torch.randn(64, 4 * GROUP, generator=torch.Generator().manual_seed(1))
    whole, scales = in_groups(weight)
    steps = scales.repeat_interleave(GROUP, 1)
    missed = (whole * steps - weight).abs() / steps.abs()
    assert (missed[whole < 7] <= 0.5 + 8 / 256).all()  # eight steps, each rounded to bfloat16
    assert (missed <= 1 + 8 / 256).all()


def test_a_group_of_zeros_stays_zero() -> None:
    whole, scales = in_groups(torch.zeros(2, GROUP))
    assert not whole.any() and not scales.any()
