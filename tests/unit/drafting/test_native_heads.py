"""Heads in C grow the trees that tensors grow, for any number of rows and in each precision."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from talkahead.backbone import shortlist
from talkahead.drafting import draft_matrices
from talkahead.drafting.draft_heads import DraftHeads, weights_of
from talkahead.drafting.draft_pool import DraftPool
from talkahead.drafting.heads_drafter import HeadsDrafter
from talkahead.drafting.heads_kind import heads_drafter
from talkahead.drafting.native_heads import NativeHeads
from talkahead.drafting.rank_paths import RankTree
from talkahead.speculation.contracts import Context, DraftRequest
from talkahead.speculation.draws import stream_keys
from talkahead.speculation.rows import Rows
from talkahead.speculation.sampling import SamplingSettings
from torch import Tensor

WIDTH, VOCABULARY, HEADS, BLOCK = 192, 301, 3, 128
TREE = RankTree(
    ((0,), (1,), (16,), (0, 0), (0, 2), (1, 1), *((16, rank) for rank in range(9)), (0, 0, 1), (16, 3, 0))
)
PRECISIONS = (torch.float32, torch.bfloat16, torch.int8)
NEAR = {torch.float32: 1e-5, torch.bfloat16: 1e-2, torch.int8: 6e-2}
"""By how much of the logits' spread a named token may lie below the one that should be there."""


@pytest.fixture(params=["told", "told, narrow output", "blind", "blind, of one layer"])
def heads(request: pytest.FixtureRequest) -> DraftHeads:
    torch.manual_seed(2)
    block_size = None if request.param.endswith("one layer") else BLOCK
    is_told, rank = request.param.startswith("told"), 48 if "narrow" in request.param else None
    heads = DraftHeads(HEADS, WIDTH, VOCABULARY, block_size=block_size, sees_tokens=is_told, output_rank=rank)
    return heads.requires_grad_(False)


def native(heads: DraftHeads, precision: torch.dtype = torch.float32) -> NativeHeads:
    blocks = weights_of(heads.inward), weights_of(heads.outward)
    return NativeHeads(*blocks, heads.linear_weights(), heads.token_rows(), precision)


def context_of(rows: int, *, trials: int = 0, temperature: float = 1.0) -> Context:
    """Random hidden states and roots; without `trials`, the likeliest tokens are wanted."""
    places, none = torch.arange(rows), torch.zeros(rows, dtype=torch.int64)
    heat = torch.full((rows,), temperature, dtype=torch.float64)
    return Context(
        rows=Rows.of(range(rows)),
        roots=torch.randint(VOCABULARY, (rows, 1)),
        positions=3 * places,
        hidden=torch.randn(rows, WIDTH),
        frames=torch.zeros((rows, 0, 1), dtype=torch.int64),
        keys=stream_keys(places, none),
        settings=SamplingSettings.of(heat, none, torch.ones_like(heat)),
        draft_request=DraftRequest(trials=trials),
    )


def shortfall(heads: DraftHeads, hidden: Tensor, tokens: Tensor) -> float:
    """The most that a node's logit, after the path that was grown, lies from what its rank should have, in
    standard deviations."""
    places, largest = {(): 0, **{path: node for node, path in enumerate(TREE.by_depth.paths, 1)}}, 0.0
    exact = heads.double()
    for path in TREE.paths:
        above = [places[path[:depth]] for depth in range(len(path))]
        told = torch.cat([tokens[:, above], tokens[:, :1].expand(-1, HEADS - len(path))], dim=1)
        logits = exact(hidden.double(), told)[:, len(path) - 1]
        wanted = logits.topk(path[-1] + 1).values[:, -1:]
        named = logits.gather(1, tokens[:, places[path], None])
        largest = max(largest, float((wanted - named).abs().max() / logits.std()))
    heads.float()
    return largest


def list_shortly(monkeypatch: pytest.MonkeyPatch, share: float) -> None:
    """From any vocabulary, looking at so much of it."""
    monkeypatch.setattr(shortlist, "SHORTLISTED", 1)
    monkeypatch.setattr(shortlist, "LOOKED_AT", share)


@pytest.mark.parametrize("is_listed", [False, True], ids=["in order", "listed whole"])
@pytest.mark.parametrize(
    "in_tiles", [pytest.param(True, marks=pytest.mark.needs("amx")), False], ids=["tiles", "panels"]
)
@pytest.mark.parametrize("precision", PRECISIONS, ids=str)
def test_grown_trees(
    heads: DraftHeads,
    precision: torch.dtype,
    in_tiles: bool,
    is_listed: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(draft_matrices, "has_tiles", lambda: in_tiles)
    if is_listed:
        list_shortly(monkeypatch, 1.0)
    own = native(heads, precision).tree(TREE.by_depth.levels)
    for rows in (1, 7, 101):
        context = context_of(rows)
        tokens = own.grow(context)
        assert torch.equal(tokens[:, :1], context.roots)
        assert shortfall(heads, context.hidden, tokens) < NEAR[precision]
        assert torch.equal(own.grow(context.of(torch.tensor([rows - 1]))), tokens[-1:])
    # What the test must catch.
    rolled = torch.cat([context.roots, tokens[:, 1:].roll(1, dims=1)], 1)
    assert shortfall(heads, context.hidden, rolled) > NEAR[precision]


def test_a_shortlist_of_alike_tokens_holds_the_likeliest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens in families of 40: of states near one of these, a tenth of the vocabulary is enough."""
    torch.manual_seed(3)
    list_shortly(monkeypatch, 0.1)
    heads = DraftHeads(1, WIDTH, 4000, sees_tokens=False).requires_grad_(False)
    families = torch.randn(100, WIDTH)
    tokens = (families[:, None] + 0.3 * torch.randn(100, 40, WIDTH)).flatten(0, 1)[torch.randperm(4000)]
    heads.linears[0].weight.copy_(tokens)
    context = replace(context_of(100), hidden=families)
    wanted = heads.guesses(heads.states(families, 0), 0).topk(4).indices
    tree = RankTree(((0,), (1,), (2,), (3,)))
    assert torch.equal(native(heads).tree(tree.levels).grow(context)[:, 1:], wanted)
    # What the test must catch: of tokens in no order, a tenth does not hold them.
    monkeypatch.setattr(shortlist, "in_blocks_alike", lambda rows, size: torch.randperm(len(rows)))
    assert (native(heads).tree(tree.levels).grow(context)[:, 1:] != wanted).float().mean() > 0.5


def test_of_equals_the_first_comes_first(heads: DraftHeads) -> None:
    for *_, weight in heads.linear_weights():
        weight.zero_()
    tree = RankTree(((0,), (2,), (2, 0), (2, 1)))
    tokens = native(heads).tree(tree.levels).grow(context_of(2))
    assert tokens[:, 1:].tolist() == [[0, 2, 0, 1]] * 2


def test_a_tree_that_grows_too_wide_is_refused(heads: DraftHeads) -> None:
    wide = RankTree((*((rank,) for rank in range(200)), *((rank, 0) for rank in range(200))))
    with pytest.raises(ValueError, match="200 nodes have children"):
        native(heads).tree(wide.levels)


def test_a_tree_with_more_tokens_behind_a_node_than_are_listed_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    list_shortly(monkeypatch, 0.1)
    heads = DraftHeads(1, WIDTH, 4000, sees_tokens=False).requires_grad_(False)
    wide = RankTree(tuple((rank,) for rank in range(600)))
    with pytest.raises(ValueError, match="600 tokens stand after one node"):
        native(heads).tree(wide.levels)


@pytest.mark.parametrize(("trials", "temperature"), [(0, 0.7), (1, 0.7), (3, 0.7), (1, 0.0)])
def test_a_drafter_proposes_the_same_in_c_and_with_tensors(
    heads: DraftHeads, trials: int, temperature: float
) -> None:
    mixed = RankTree(((0,), (1,), (1, 3), (0, 0), (0, 2), (0, 0, 1)))  # not depth by depth as it stands
    drafter = heads_drafter(heads, mixed, DraftPool(4, 32))
    assert isinstance(drafter, HeadsDrafter)
    assert drafter._native is not None
    context = context_of(130, trials=trials, temperature=temperature)
    tokens = drafter._native.grow(context)
    assert torch.equal(tokens, drafter.grow_in_torch(context))
    likeliest = drafter.grow_in_torch(replace(context, draft_request=DraftRequest(trials=0)))
    assert torch.equal(tokens, likeliest) == (trials == 0 or temperature == 0.0)
