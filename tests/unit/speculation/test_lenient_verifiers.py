"""`tolerance` and `topk`: what they accept, what they become at their bounds, and where speech ends."""

from __future__ import annotations

import pytest
import torch
from markov_speech import (
    BUSHY,
    CHAIN,
    SHAPES,
    BestDrafter,
    MarkovBackbone,
    SampledDrafter,
    context_of,
    excess,
    joint,
    keys_of,
    make_tables,
    settings_of,
    speak,
    transitions,
    trigrams,
)
from talkahead.speculation.contracts import Accepted, Context, Preserves, Scored, Verifier
from talkahead.speculation.match_verifier import MatchVerifier
from talkahead.speculation.null_drafter import NullDrafter
from talkahead.speculation.token_tree import TokenTree, TreeShape
from talkahead.speculation.tolerance_verifier import ToleranceVerifier
from talkahead.speculation.topk_verifier import TopkVerifier
from torch import Tensor

VOCABULARY, ROWS, LENGTH = 6, 300, 40
TARGET, DRAFT = make_tables(VOCABULARY, seed=1)
BACKBONE = MarkovBackbone(TARGET)
NEVER = -1
"""No token: speech that does not end."""
PLAIN, NARROW, GREEDY = (1.0, 0, 1.0), (0.7, 4, 0.9), (0.0, 0, 1.0)
MIXED = settings_of(ROWS, PLAIN, NARROW, GREEDY)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
@pytest.mark.parametrize("kind", ["sampled", "best"])
def test_a_tolerance_of_1_is_match(kind: str, shape: TreeShape) -> None:
    drafter = (
        SampledDrafter(DRAFT, shape, is_distinct=True) if kind == "sampled" else BestDrafter(DRAFT, shape)
    )
    match, tolerance = (
        speak(BACKBONE, drafter, one, MIXED, LENGTH) for one in (MatchVerifier(), ToleranceVerifier(1, NEVER))
    )
    assert torch.equal(match.tokens, tolerance.tokens)
    assert match.committed_per_step == tolerance.committed_per_step
    assert torch.equal(match.tokens, speak(BACKBONE, NullDrafter(), MatchVerifier(), MIXED, LENGTH).tokens)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_tolerance_of_greedy_speech_is_match(shape: TreeShape) -> None:
    settings = settings_of(ROWS, GREEDY)
    plain = speak(BACKBONE, NullDrafter(), MatchVerifier(), settings, LENGTH).tokens
    drafted = speak(BACKBONE, SampledDrafter(DRAFT, shape), ToleranceVerifier(4, NEVER), settings, LENGTH)
    assert torch.equal(drafted.tokens, plain)


@pytest.mark.parametrize("tolerance", [1, 2, 3, 5])
def test_a_token_is_accepted_as_often_as_it_is_among_the_draws(tolerance: int) -> None:
    """1 - (1 - q)^tau of each drafted token; false-alarm rate 1e-6."""
    rows = 30_000
    drafted = torch.arange(rows) % VOCABULARY
    tree = TokenTree(torch.stack([torch.zeros_like(drafted), drafted], dim=1)[..., None], TreeShape((-1, 0)))
    accepted = one_step(ToleranceVerifier(tolerance, NEVER), tree, TARGET[tree.ids])
    chances = 1 - (1 - transitions(TARGET, PLAIN)[0]) ** tolerance
    for token in range(VOCABULARY):
        is_accepted = accepted.counts[drafted == token] == 2
        expected = torch.stack([1 - chances[token], chances[token]])
        assert excess(torch.bincount(is_accepted.long(), minlength=2), expected) < 1


def test_a_tolerance_accepts_more_and_changes_the_distribution() -> None:
    settings = settings_of(20_000, PLAIN)
    spoken = [
        speak(BACKBONE, SampledDrafter(DRAFT, CHAIN), ToleranceVerifier(tau, NEVER), settings, 4)
        for tau in (1, 2, 4)
    ]
    committed = [one.committed_per_step for one in spoken]
    assert committed == sorted(committed) and committed[0] < committed[-1] - 0.3
    law = joint(transitions(TARGET, PLAIN), 0, 3)
    excesses = [excess(trigrams(one.tokens, 0, VOCABULARY), law) for one in spoken]
    assert excesses[0] < 1 < excesses[2]


def test_topk_of_1_is_match_when_greedy() -> None:
    settings = settings_of(ROWS, GREEDY)
    plain = speak(BACKBONE, NullDrafter(), MatchVerifier(), settings, LENGTH).tokens
    for shape in SHAPES.values():
        drafted = speak(BACKBONE, SampledDrafter(DRAFT, shape), TopkVerifier(1, 1, NEVER), settings, LENGTH)
        assert torch.equal(drafted.tokens, plain)


def test_topk_of_1_accepts_the_best_token_alone() -> None:
    """Sampled: every drafted token that is spoken is the target's best."""
    tree = SampledDrafter(DRAFT, CHAIN).propose(_context(torch.zeros((ROWS, 1), dtype=torch.int64)))
    accepted = one_step(TopkVerifier(1, 1, NEVER), tree, TARGET[tree.ids])
    tokens = tree.ids
    is_best = tokens[:, 1:] == TARGET.argmax(1)[tokens[:, :-1]]
    assert torch.equal(accepted.counts, 1 + is_best.long().cumprod(1).sum(1))
    assert len(accepted.counts.unique()) > 2


@pytest.mark.parametrize("k", [VOCABULARY, 65_536])
def test_topk_of_the_whole_vocabulary_speaks_the_draft(k: int) -> None:
    """All is accepted: three tokens in four are the draft's, the fourth is the target's."""
    settings, verifier = settings_of(20_000, PLAIN), TopkVerifier(k, k, NEVER)
    spoken = speak(BACKBONE, SampledDrafter(DRAFT, CHAIN), verifier, settings, 4)
    assert spoken.committed_per_step == len(CHAIN)
    target, draft = transitions(TARGET, PLAIN), transitions(DRAFT, PLAIN)
    assert excess(trigrams(spoken.tokens, 0, VOCABULARY), joint(draft, 0, 3)) < 1
    pairs = spoken.tokens[:, 2] * VOCABULARY + spoken.tokens[:, 3]
    law = torch.linalg.matrix_power(draft, 3)[0][:, None] * target
    assert excess(torch.bincount(pairs, minlength=VOCABULARY**2), law) < 1


def test_topk_accepts_more_with_k() -> None:
    settings, drafter = settings_of(2_000, PLAIN), SampledDrafter(DRAFT, BUSHY)
    committed = [
        speak(BACKBONE, drafter, TopkVerifier(k, k, NEVER), settings, 12).committed_per_step
        for k in range(1, VOCABULARY + 1)
    ]
    assert committed == sorted(committed) and committed[0] < committed[-1]


# Worked examples: one row, a vocabulary of 12, of which 11 is the end of speech.

EOS = 11
FORK = TreeShape((-1, 0, 0, 2))


def _context(roots: Tensor) -> Context:
    zeros = torch.zeros(len(roots), dtype=torch.int64)
    return context_of(roots, zeros, keys_of(len(roots)), settings_of(len(roots), PLAIN))


def one_step(verifier: Verifier, tree: TokenTree, logits: Tensor) -> Accepted:
    return verifier.accept(tree, Scored(logits, torch.zeros(0)), _context(tree.tokens[:, 0]))


def logits_of(*likely: dict[int, float]) -> Tensor:
    """[1, N, 12]: the logits given, and nothing else."""
    logits = torch.full((1, len(likely), 12), -30.0)
    for node, own in enumerate(likely):
        logits[0, node, list(own)] = torch.tensor(list(own.values()))
    return logits


BOTH = [ToleranceVerifier(64, EOS), TopkVerifier(2, 2, EOS)]


@pytest.mark.parametrize("verifier", BOTH)
def test_the_longest_path_wins(verifier: Verifier) -> None:
    """Root 0, children 1 and 2; below child 2, token 3: only the path over 2 goes on."""
    tree = TokenTree(torch.tensor([[[0], [1], [2], [3]]]), FORK)
    logits = logits_of({1: 1.0, 2: 0.9}, {7: 0.0}, {3: 0.0}, {8: 0.0})
    accepted = one_step(verifier, tree, logits)
    assert accepted.path[0, : int(accepted.counts)].tolist() == [0, 2, 3]
    assert accepted.next_roots.tolist() == [[8]]


@pytest.mark.parametrize("verifier", BOTH)
@pytest.mark.parametrize(("first", "second", "node"), [(1.0, 0.5, 1), (0.5, 1.0, 2), (1.0, 1.0, 1)])
def test_of_equally_long_paths_the_likelier_wins_then_the_lower_rank(
    verifier: Verifier, first: float, second: float, node: int
) -> None:
    tree = TokenTree(torch.tensor([[[0], [1], [2]]]), TreeShape((-1, 0, 0)))
    accepted = one_step(verifier, tree, logits_of({1: first, 2: second}, {7: 0.0}, {8: 0.0}))
    assert accepted.path[0, : int(accepted.counts)].tolist() == [0, node]
    assert accepted.next_roots.tolist() == [[[7, 8][node - 1]]]


@pytest.mark.parametrize("verifier", BOTH)
def test_likelihood_is_that_of_the_whole_path(verifier: Verifier) -> None:
    """Child 1 is likelier than child 2, but what follows it is less likely than what follows 2."""
    tree = TokenTree(torch.tensor([[[0], [1], [2], [3], [4]]]), TreeShape((-1, 0, 0, 1, 2)))
    logits = logits_of({1: 0.5, 2: 0.0}, {3: 0.0, 5: 1.0}, {4: 0.0}, {7: 0.0}, {8: 0.0})
    accepted = one_step(verifier, tree, logits)
    assert accepted.path[0].tolist() == [0, 2, 4]
    assert accepted.next_roots.tolist() == [[8]]


@pytest.mark.parametrize("verifier", BOTH)
def test_a_path_that_goes_on_behind_the_end_of_speech_is_not_longer(verifier: Verifier) -> None:
    """Children 1 (the likelier) and the end of speech; below the latter, token 3, which passes as well."""
    tree = TokenTree(torch.tensor([[[0], [1], [EOS], [3]]]), FORK)
    logits = logits_of({1: 0.5, EOS: 0.0}, {7: 0.0}, {3: 0.0}, {8: 0.0})
    accepted = one_step(verifier, tree, logits)
    assert accepted.path[0, : int(accepted.counts)].tolist() == [0, 1]
    assert accepted.next_roots.tolist() == [[7]]


@pytest.mark.parametrize(("eos_top_k", "count"), [(1, 1), (2, 2)])
def test_the_end_of_speech_has_a_k_of_its_own(eos_top_k: int, count: int) -> None:
    tree = TokenTree(torch.tensor([[[0], [EOS]]]), TreeShape((-1, 0)))
    logits = logits_of({1: 5.0, EOS: 0.0}, {7: 0.0})
    assert one_step(TopkVerifier(2, eos_top_k, EOS), tree, logits).counts.tolist() == [count]


def test_what_is_promised() -> None:
    assert ToleranceVerifier(3, EOS).preserves is Preserves.NOTHING
    assert TopkVerifier(3, 1, EOS).preserves is Preserves.NOTHING
