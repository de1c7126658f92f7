"""The walks in C accept what the tensor code accepts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from markov_speech import (
    SHAPES,
    BestDrafter,
    MarkovBackbone,
    SampledDrafter,
    context_of,
    keys_of,
    make_tables,
    settings_of,
)
from talkahead.speculation import native_walk, torch_walk
from talkahead.speculation.contracts import Accepted, Context, Scored
from talkahead.speculation.passing import Passing
from talkahead.speculation.sampling import draw
from talkahead.speculation.similarity_groups import SimilarityGroups
from talkahead.speculation.token_tree import TokenTree, TreeShape
from talkahead.speculation.walk import Walk, walk_of

Case = tuple[TokenTree, Scored, Context]

VOCABULARY, ROWS = 60, 300
EOS = VOCABULARY - 1
DEEP = TreeShape((-1, 0, 0, 0, 1, 1, 2, 4, 4, 6, 7, 10, 10))
GROUPS = SimilarityGroups.of(
    torch.randn(VOCABULARY, 4, generator=torch.Generator().manual_seed(0)), threshold=0.7, alone=(EOS,)
)
Walked = Callable[[Walk, TokenTree, Scored, Context], Accepted]


def by_ratio(groups: SimilarityGroups | None, bias: float) -> Walked:
    return lambda walk, tree, scored, context: walk.ratio(tree, scored, context, groups, bias)


def by_length(passing: Passing) -> Walked:
    return lambda walk, tree, scored, context: walk.longest(tree, scored, context, passing)


def by_match(walk: Walk, tree: TokenTree, scored: Scored, context: Context) -> Accepted:
    return walk.match(tree, scored, context)


WALKS: dict[str, Walked] = {
    "match": by_match,
    "tolerance": by_length(Passing(EOS, trials=3)),
    "topk": by_length(Passing(EOS, top_k=6, eos_top_k=2)),
    "ratio": by_ratio(None, 0.0),
    "biased": by_ratio(None, 0.2),
    "groups": by_ratio(GROUPS, 0.0),
}


@pytest.fixture(params=["sampled", "distinct", "best"])
def drafting(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


@pytest.fixture(params=[*SHAPES, "deep"])
def case(request: pytest.FixtureRequest, drafting: str) -> Case:
    """Float32; a peaked target, so that paths are long and short, and rows of all kinds of settings."""
    shape = {**SHAPES, "deep": DEEP}[request.param]
    target, draft = (2.5 * table.float() for table in make_tables(VOCABULARY, seed=7, difference=0.4))
    settings = settings_of(ROWS, (1.0, 0, 1.0), (0.7, 0, 0.9), (0.0, 0, 1.0), (1.3, 6, 0.95))
    roots = (torch.arange(ROWS) % VOCABULARY)[:, None]
    context = context_of(roots, 3 * torch.arange(ROWS), keys_of(ROWS), settings)
    if drafting == "best":
        tree = BestDrafter(draft, shape).propose(context)
    else:
        tree = SampledDrafter(draft, shape, is_distinct=drafting == "distinct").propose(context)
    return tree, MarkovBackbone(target).score(tree, context.rows), context


@pytest.mark.parametrize("walked", WALKS.values(), ids=WALKS.keys())
def test_c_accepts_what_tensors_accept(walked: Walked, case: Case) -> None:
    """Sums differ in their last bits, which none of these outcomes hangs on."""
    in_c, in_torch = (walked(walk, *case) for walk in (native_walk, torch_walk))
    assert torch.equal(in_c.counts, in_torch.counts)
    assert torch.equal(in_c.path, in_torch.path)
    assert torch.equal(in_c.next_roots, in_torch.next_roots)
    if len(case[0].shape) > 1:
        assert len(in_c.counts.unique()) > 1


@pytest.mark.parametrize("walked", WALKS.values(), ids=WALKS.keys())
def test_what_a_context_keeps_is_the_next_steps(walked: Walked, case: Case) -> None:
    """Three steps of one context, whose columns are written in between: each says what tensors say of it."""
    tree, scored, context = case
    kept = replace(context, positions=context.positions.clone(), scratch={})
    for step in range(3):
        turned = TokenTree(tree.tokens.roll(step, 0), tree.shape, tree.draft_probs)
        logits = Scored(scored.logits.roll(step, 0), scored.hidden)
        in_c, in_torch = (walked(walk, turned, logits, kept) for walk in (native_walk, torch_walk))
        for name in ("counts", "path", "next_roots"):
            assert torch.equal(getattr(in_c, name), getattr(in_torch, name)), (step, name)
        kept.positions.add_(in_c.counts)


@pytest.mark.parametrize("walked", WALKS.values(), ids=WALKS.keys())
def test_what_rules_forbid_is_never_spoken(walked: Walked, case: Case) -> None:
    """Drafts know nothing of rules, and a lenient verifier takes what the target would never say."""
    tree, scored, context = case
    is_forbidden = torch.arange(VOCABULARY) % 3 == 0
    ruled = Scored(scored.logits.masked_fill(is_forbidden, -torch.inf), scored.hidden)
    in_c, in_torch = (walked(walk, tree, ruled, context) for walk in (native_walk, torch_walk))
    for name in ("counts", "path", "next_roots"):
        assert torch.equal(getattr(in_c, name), getattr(in_torch, name)), name
    assert not is_forbidden[in_c.next_roots].any()
    if len(tree.shape) > 1:
        assert is_forbidden[tree.ids[:, 1:]].any()
        on_path = torch.arange(in_c.path.shape[1]) < in_c.counts[:, None]
        on_path[:, 0] = False  # the root was drawn under other rules
        assert on_path.any() and not is_forbidden[tree.ids.gather(1, in_c.path)[on_path]].any()


def test_c_adds_what_tensors_add(case: Case) -> None:
    tree, scored, context = case
    hidden = torch.randn(ROWS, tree.num_nodes, 16, generator=torch.Generator().manual_seed(2))
    scored = Scored(scored.logits, hidden)
    accepted = torch_walk.match(tree, scored, context)
    ours, theirs = (_copied(context) for _ in range(2))
    in_c = native_walk.advance_rows(tree, scored, accepted, ours)
    in_torch = torch_walk.advance_rows(tree, scored, accepted, theirs)
    is_added = torch.arange(in_torch.shape[1]) < accepted.counts[:, None]
    assert torch.equal(in_c[is_added], in_torch[is_added])
    assert not torch.equal(theirs.positions, context.positions)
    for name in ("roots", "positions", "hidden"):
        assert torch.equal(getattr(ours, name), getattr(theirs, name)), name


def _copied(context: Context) -> Context:
    """With state of its own, which a step may write."""
    roots, positions = context.roots.clone(), context.positions.clone()
    return replace(context, roots=roots, positions=positions, hidden=torch.zeros(ROWS, 16))


def test_what_c_cannot_read_goes_to_tensors(case: Case) -> None:
    tree, scored, context = case
    double = Scored(scored.logits.double(), scored.hidden)
    assert walk_of(scored) is native_walk
    assert walk_of(double) is torch_walk
    assert walk_of(Scored(scored.logits, scored.hidden.bfloat16())) is torch_walk
    for walked in WALKS.values():
        of_double, of_single = (walked(walk_of(one), tree, one, context) for one in (double, scored))
        assert torch.equal(of_double.counts, of_single.counts)


def test_of_roots_alone_every_walk_is_plain_decoding(case: Case) -> None:
    tree, scored, context = case
    roots = TokenTree(tree.tokens[:, :1])
    first = Scored(scored.logits[:, :1], scored.hidden[:, :1])
    drawn = draw(first.logits, context.settings, context.keys, context.positions[:, None] + 1)
    for walked in WALKS.values():
        for walk in (native_walk, torch_walk):
            accepted = walked(walk, roots, first, context)
            assert accepted.counts.tolist() == [1] * ROWS and torch.equal(accepted.next_roots, drawn)


def test_logits_that_are_no_numbers_still_give_a_token(case: Case) -> None:
    """A broken model must not make the server read outside its tables."""
    tree, scored, context = case
    broken = Scored(torch.full_like(scored.logits, torch.nan), scored.hidden)
    for walked in WALKS.values():
        for walk in (native_walk, torch_walk):
            accepted = walked(walk, tree, broken, context)
            assert bool(((accepted.next_roots >= 0) & (accepted.next_roots < VOCABULARY)).all())
            assert bool(((accepted.path >= 0) & (accepted.path < tree.num_nodes)).all())
            assert bool((accepted.counts >= 1).all())
