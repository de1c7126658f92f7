"""Heads in C name the tokens that tensors name, for any number of rows and in each precision."""

from __future__ import annotations

import pytest
import torch
from talkahead.backbone import native_heads
from talkahead.backbone.native_decoder import can_multiply, has_tiles
from talkahead.backbone.native_heads import NativeHeads
from talkahead.drafting.draft_heads import DraftHeads
from talkahead.drafting.drafter_choice import DraftPool, heads_drafter
from talkahead.native_library import NativeUnavailable
from talkahead.speculation.rank_paths import RankTree
from torch import Tensor

WIDTH, VOCABULARY, HEADS = 192, 301, 3
WIDTHS = torch.tensor([4, 17, 1])
PRECISIONS = (torch.float32, torch.bfloat16, torch.int8)
NEAR = {torch.float32: 1e-5, torch.bfloat16: 1e-2, torch.int8: 5e-2}
"""By how much of the logits' spread a named token may lie below the one that should be there."""


def _compiles() -> bool:
    try:
        return can_multiply(torch.float32)
    except NativeUnavailable:
        return False


pytestmark = pytest.mark.skipif(not _compiles(), reason="nothing can be compiled here")


@pytest.fixture
def heads() -> DraftHeads:
    torch.manual_seed(2)
    return DraftHeads(HEADS, WIDTH, VOCABULARY).requires_grad_(False)


def native(heads: DraftHeads, precision: torch.dtype = torch.float32) -> NativeHeads:
    return NativeHeads(heads.block_weights(), heads.head_weights(), precision)


def shortfall(heads: DraftHeads, hidden: Tensor, best: Tensor) -> float:
    """The most that a named token's logit lies below what its rank should have, in standard deviations."""
    largest, first = 0.0, 0
    for level, width in enumerate(WIDTHS.tolist()):
        logits = heads.double().guesses(hidden.double(), level)
        named = logits.gather(1, best[:, first : first + width])
        largest = max(largest, float((logits.topk(width).values - named).abs().max() / logits.std()))
        first += width
    heads.float()
    return largest


@pytest.mark.parametrize("in_tiles", [True, False], ids=["tiles", "panels"])
@pytest.mark.parametrize("precision", PRECISIONS, ids=str)
def test_best_tokens(
    heads: DraftHeads, precision: torch.dtype, in_tiles: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if in_tiles and not has_tiles():
        pytest.skip("this CPU has no tiles (AMX)")
    monkeypatch.setattr(native_heads, "has_tiles", lambda: in_tiles)
    own = native(heads, precision)
    for rows in (1, 7, 101):
        hidden = torch.randn(rows, WIDTH)
        best = own.best(hidden, WIDTHS)
        assert shortfall(heads, hidden, best) < NEAR[precision]
        assert all(len(set(row[4:21])) == 17 for row in best.tolist())
        assert torch.equal(own.best(hidden[-1:], WIDTHS), best[-1:])
    assert shortfall(heads, hidden, best.roll(1, dims=1)) > NEAR[precision]  # which the test must catch


def test_of_equals_the_first_comes_first(heads: DraftHeads) -> None:
    for weight in heads.head_weights():
        weight.zero_()
    best = native(heads).best(torch.randn(2, WIDTH), WIDTHS)
    assert best[0].tolist() == [*range(4), *range(17), 0]


def test_a_drafter_proposes_the_same_in_c_and_with_tensors(heads: DraftHeads) -> None:
    drafter = heads_drafter(heads, RankTree(((0,), (1,), (0, 0), (0, 2), (0, 0, 1))), DraftPool(4, 32))
    assert drafter._native is not None
    hidden = torch.randn(4, WIDTH)
    found = drafter._best(hidden)
    drafter._native = None
    assert torch.equal(found, drafter._best(hidden))
