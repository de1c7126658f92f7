"""Rows are sorted into whole blocks, each once, and alike ones share a block."""

from __future__ import annotations

import pytest
import torch
from talkahead.backbone.alike_rows import block_means, in_blocks_alike


@pytest.mark.parametrize("count", [1, 63, 64, 65, 640, 1000, 10_000])
def test_every_row_stands_once(count: int) -> None:
    rows = torch.randn(count, 8, generator=torch.Generator().manual_seed(count))
    order = in_blocks_alike(rows, 64)
    assert torch.equal(order.sort().values, torch.arange(count))
    assert torch.equal(order, in_blocks_alike(rows, 64))


def test_families_share_blocks() -> None:
    torch.manual_seed(1)
    family = torch.randperm(1024) % 16
    rows = 4 * torch.randn(16, 24)[family] + torch.randn(1024, 24)
    blocks = family[in_blocks_alike(rows, 64)].view(16, 64)
    assert all(len(block.unique()) == 1 for block in blocks)


def test_equal_rows_are_no_obstacle() -> None:
    assert torch.equal(in_blocks_alike(torch.ones(200, 4), 64).sort().values, torch.arange(200))


def test_the_last_block_has_the_mean_of_what_is_left() -> None:
    rows = torch.arange(10.0)[:, None]
    assert block_means(rows, 4).flatten().tolist() == [1.5, 5.5, 8.5]
