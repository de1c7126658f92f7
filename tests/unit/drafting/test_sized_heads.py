"""Of its trees, a step's drafter takes the one for its verifier's draws and its room."""

from __future__ import annotations

import pytest
import torch
from talkahead.drafting.heads_drafter import SizedHeadsDrafter
from talkahead.drafting.rank_paths import RankTree
from talkahead.speculation.contracts import Context, DraftRequest
from talkahead.speculation.rows import Rows
from talkahead.speculation.sampling import SamplingSettings
from tiny_talker import WIDTH, make_heads, make_llama

WIDE, DEEP = RankTree(((0,), (1,))), RankTree(((0,), (0, 0)))
LARGE, LARGE_DEEP = RankTree(((0,), (1,), (2,), (0, 0))), RankTree(((0,), (0, 0), (0, 0, 0), (1,)))


@pytest.fixture(scope="module")
def drafter() -> SizedHeadsDrafter:
    return SizedHeadsDrafter(
        make_heads(make_llama()).double(), (LARGE, WIDE), tolerant={3: (DEEP, LARGE_DEEP)}
    )


@pytest.mark.parametrize(
    ("nodes", "trials", "tree"),
    [
        (3, 0, WIDE),
        (3, 1, WIDE),
        (3, 2, WIDE),
        (3, 3, DEEP),
        (4, 5, DEEP),
        (5, 1, LARGE),
        (None, 3, LARGE_DEEP),
        (2, 3, RankTree(())),
    ],
)
def test_trees_are_chosen_by_draws_and_room(
    drafter: SizedHeadsDrafter, nodes: int | None, trials: int, tree: RankTree
) -> None:
    whole = torch.zeros(2, dtype=torch.int64)
    ones = torch.ones(2, dtype=torch.float64)
    settings = SamplingSettings.of(ones, whole, ones)
    hidden = torch.zeros((2, WIDTH), dtype=torch.float64)
    request = DraftRequest(nodes, trials=trials)
    context = Context(
        Rows.of(range(2)), whole[:, None], whole, hidden, whole[:, None], whole, settings, request
    )
    assert drafter.propose(context).shape.parents == tree.by_depth.shape.parents
