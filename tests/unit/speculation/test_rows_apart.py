"""Rows of one batch with settings of their own: no verifier lets one see its neighbours."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from markov_speech import (
    CHAIN,
    TWINS,
    BestDrafter,
    MarkovBackbone,
    SampledDrafter,
    context_of,
    keys_of,
    make_tables,
    settings_of,
)
from talkahead.speculation.biased_verifier import BiasedVerifier
from talkahead.speculation.contracts import Accepted, Context, Drafter, Scored, Verifier
from talkahead.speculation.groups_verifier import GroupsVerifier
from talkahead.speculation.match_verifier import MatchVerifier
from talkahead.speculation.null_drafter import NullDrafter
from talkahead.speculation.ratio_verifier import RatioVerifier
from talkahead.speculation.rows import Rows
from talkahead.speculation.similarity_groups import SimilarityGroups
from talkahead.speculation.token_tree import TokenTree
from talkahead.speculation.tolerance_verifier import ToleranceVerifier
from talkahead.speculation.topk_verifier import TopkVerifier

VOCABULARY, ROWS = 40, 24
TARGET, DRAFT = make_tables(VOCABULARY, seed=4)
EOS = VOCABULARY - 1
EMBEDDINGS = torch.randn(VOCABULARY, 4, generator=torch.Generator().manual_seed(0))
VERIFIERS: dict[str, Verifier] = {
    "match": MatchVerifier(),
    "ratio": RatioVerifier(),
    "groups": GroupsVerifier(SimilarityGroups.of(EMBEDDINGS, 0.7, alone=(EOS,))),
    "tolerance": ToleranceVerifier(3, EOS),
    "topk": TopkVerifier(8, 2, EOS),
    "biased": BiasedVerifier(0.2),
}
SETTINGS = settings_of(ROWS, (1.0, 0, 1.0), (0.7, 0, 0.9), (0.0, 0, 1.0), (1.3, 6, 0.95), (0.9, 0, 1.0))
Case = tuple[TokenTree, Scored, Context]


@pytest.fixture(
    params=[torch.float64, torch.float32],
    ids=["float64", "float32"],
)
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    chosen: torch.dtype = request.param
    return chosen


@pytest.fixture(params=["sampled chain", "sampled tree", "best tree", "root alone"])
def case(request: pytest.FixtureRequest, dtype: torch.dtype) -> Case:
    draft = DRAFT.to(dtype)
    drafters: dict[str, Drafter] = {
        "sampled chain": SampledDrafter(draft, CHAIN),
        "sampled tree": SampledDrafter(draft, TWINS),
        "best tree": BestDrafter(draft, TWINS),
        "root alone": NullDrafter(),
    }
    roots, positions = (torch.arange(ROWS) % VOCABULARY)[:, None], torch.arange(ROWS) * 7
    context = context_of(roots, positions, keys_of(ROWS), SETTINGS)
    tree = drafters[request.param].propose(context)
    scored = MarkovBackbone(TARGET.to(dtype)).score(tree, context.rows)
    return tree, scored, context


def only(case: Case, row: int) -> Case:
    tree, scored, context = case
    rows = slice(row, row + 1)
    probs = None if tree.draft_probs is None else tree.draft_probs[rows]
    return (
        dataclasses.replace(tree, tokens=tree.tokens[rows], draft_probs=probs),
        Scored(scored.logits[rows], scored.hidden[rows]),
        dataclasses.replace(context.of(torch.tensor([row])), rows=Rows.of([row])),
    )


def spoken(tree: TokenTree, accepted: Accepted) -> list[list[int]]:
    """Nodes of each row's path, then its next root: what lies beyond a path may be anything."""
    return [
        [*path[:count], -1, *root]
        for path, count, root in zip(
            accepted.path.tolist(), accepted.counts.tolist(), accepted.next_roots.tolist(), strict=True
        )
    ]


@pytest.mark.parametrize("verifier", VERIFIERS.values(), ids=VERIFIERS.keys())
def test_rows_do_not_see_each_other(verifier: Verifier, case: Case) -> None:
    together = spoken(case[0], verifier.accept(*case))
    for row in range(ROWS):
        alone = only(case, row)
        assert spoken(alone[0], verifier.accept(*alone)) == together[row : row + 1]


def test_the_verifiers_differ_where_there_is_a_draft(case: Case) -> None:
    """Else the tests above would show nothing. Without one all of them decode plainly."""
    told = {name: str(spoken(case[0], verifier.accept(*case))) for name, verifier in VERIFIERS.items()}
    assert len(set(told.values())) == (1 if case[0].shape.is_root_alone else len(told))
