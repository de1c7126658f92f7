"""`ratio` speaks as plain decoding does, in distribution, and the test would notice if it did not.

All statistics are of fixed seeds; their bounds are what a true source exceeds once in a million.
"""

from __future__ import annotations

import dataclasses

import pytest
import torch
from markov_speech import (
    BUSHY,
    CHAIN,
    SHAPES,
    TWINS,
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
from talkahead.speculation.biased_verifier import BiasedVerifier
from talkahead.speculation.contracts import Accepted, Context, Drafter, Preserves, Scored, Verifier
from talkahead.speculation.match_verifier import MatchVerifier
from talkahead.speculation.null_drafter import NullDrafter
from talkahead.speculation.ratio_verifier import RatioVerifier
from talkahead.speculation.sampling import draw
from talkahead.speculation.token_tree import TokenTree, TreeShape
from torch import Tensor

VOCABULARY, ROWS, LENGTH = 5, 20_000, 5
TARGET, DRAFT = make_tables(VOCABULARY, seed=0)
SINGLE, SINGLE_DRAFT = TARGET.float(), DRAFT.float()
"""In float32 the draws and the walk are those in C, in float64 those of tensors."""
PLAIN, NARROW = (1.0, 0, 1.0), (0.7, 4, 0.9)


def drafters_of(table: Tensor) -> dict[str, Drafter]:
    return {
        "none": NullDrafter(),
        "chain": SampledDrafter(table, CHAIN),
        "bushy": SampledDrafter(table, BUSHY),
        "twins": SampledDrafter(table, TWINS),
        "distinct bushy": SampledDrafter(table, BUSHY, is_distinct=True),
        "distinct twins": SampledDrafter(table, TWINS, is_distinct=True),
        "best of chain": BestDrafter(table, CHAIN),
        "best of twins": BestDrafter(table, TWINS),
    }


BACKBONE = MarkovBackbone(TARGET)
DRAFTERS, SINGLE_DRAFTERS = drafters_of(DRAFT), drafters_of(SINGLE_DRAFT)


def excess_of(verifier: Verifier, drafter: Drafter, kind: tuple[float, int, float], table: Tensor) -> float:
    """The worse of two joint distributions of three tokens: of the first ones, and of later ones."""
    backbone = MarkovBackbone(table)
    spoken = speak(backbone, drafter, verifier, settings_of(ROWS, kind), LENGTH).tokens
    matrix = transitions(table, kind)
    return max(
        excess(trigrams(spoken, first, VOCABULARY), joint(matrix, first, 3)) for first in (0, LENGTH - 3)
    )


@pytest.mark.parametrize("kind", [PLAIN, NARROW], ids=["plain", "narrow"])
@pytest.mark.parametrize("name", DRAFTERS)
def test_trigrams_are_the_targets(name: str, kind: tuple[float, int, float]) -> None:
    assert excess_of(RatioVerifier(), SINGLE_DRAFTERS[name], kind, SINGLE) < 1


@pytest.mark.parametrize("name", ["chain", "twins", "distinct bushy", "best of twins"])
def test_trigrams_are_the_targets_by_tensors(name: str) -> None:
    assert excess_of(RatioVerifier(), DRAFTERS[name], PLAIN, TARGET) < 1


class WrongResidual(RatioVerifier):
    """Draws what replaces a refused token from q instead of (q - p)+."""

    def accept(self, tree: TokenTree, scored: Scored, context: Context) -> Accepted:
        accepted = super().accept(tree, scored, context)
        rows = torch.arange(tree.num_rows)
        last = accepted.path[rows, accepted.counts - 1]
        places = context.positions[:, None] + accepted.counts[:, None]
        drawn = draw(scored.logits[rows, last][:, None], context.settings, keys_of(tree.num_rows, 9), places)
        return dataclasses.replace(accepted, next_roots=drawn)

    def call(self, tree: TokenTree, scored: Scored, context: Context) -> None:
        """None: it is Python."""
        return None


class WrongDraft(RatioVerifier):
    """Believes that siblings without replacement were drawn independently."""

    def accept(self, tree: TokenTree, scored: Scored, context: Context) -> Accepted:
        assert tree.draft_probs is not None
        probs = tree.draft_probs.clone()
        for children in tree.shape.children:
            for child in children:
                probs[:, child] = tree.draft_probs[:, children[0]]
        return super().accept(dataclasses.replace(tree, draft_probs=probs), scored, context)

    def call(self, tree: TokenTree, scored: Scored, context: Context) -> None:
        """None: it is Python."""
        return None


@pytest.mark.parametrize(
    ("verifier", "drafter"),
    [
        (WrongResidual(), "chain"),
        (WrongResidual(), "bushy"),
        (WrongDraft(), "distinct twins"),
        (BiasedVerifier(0.1), "chain"),
        (BiasedVerifier(0.1), "twins"),
    ],
    ids=["residual, chain", "residual, bushy", "siblings", "bias, chain", "bias, twins"],
)
def test_a_wrong_verifier_is_noticed(verifier: Verifier, drafter: str) -> None:
    assert excess_of(verifier, SINGLE_DRAFTERS[drafter], PLAIN, SINGLE) > 1


def test_a_perfect_draft_is_never_refused() -> None:
    drafter = SampledDrafter(TARGET, CHAIN)
    spoken = speak(BACKBONE, drafter, RatioVerifier(), settings_of(500, PLAIN, NARROW), 40)
    assert spoken.committed_per_step == len(CHAIN)


def test_a_chain_is_accepted_as_often_as_p_and_q_overlap() -> None:
    """Of one token after the root 0: sum min(p, q); 5 standard deviations, false-alarm rate 6e-7."""
    one = TreeShape((-1, 0))
    spoken = speak(BACKBONE, SampledDrafter(DRAFT, one), RatioVerifier(), settings_of(ROWS, PLAIN), length=1)
    overlap = torch.minimum(transitions(TARGET, PLAIN)[0], transitions(DRAFT, PLAIN)[0]).sum()
    deviation = (overlap * (1 - overlap) / ROWS).sqrt()
    assert abs(spoken.committed_per_step - 1 - overlap) < 5 * deviation


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_greedy_speech_is_plain_greedy_speech(shape: TreeShape) -> None:
    greedy = settings_of(50, (0.0, 0, 1.0))
    plain = speak(BACKBONE, NullDrafter(), MatchVerifier(), greedy, 30).tokens
    assert torch.equal(
        speak(BACKBONE, SampledDrafter(DRAFT, shape), RatioVerifier(), greedy, 30).tokens, plain
    )


@pytest.mark.parametrize("drafter", DRAFTERS.values(), ids=DRAFTERS.keys())
def test_a_bias_of_0_is_ratio(drafter: Drafter) -> None:
    settings = settings_of(300, PLAIN, NARROW, (0.0, 0, 1.0))
    ratio, biased = (
        speak(BACKBONE, drafter, one, settings, 30) for one in (RatioVerifier(), BiasedVerifier(0.0))
    )
    assert torch.equal(ratio.tokens, biased.tokens)
    assert ratio.committed_per_step == biased.committed_per_step


def test_a_bias_accepts_more_and_all_at_1() -> None:
    settings = settings_of(500, PLAIN)
    committed = [
        speak(BACKBONE, DRAFTERS["chain"], BiasedVerifier(bias), settings, 30).committed_per_step
        for bias in (0.0, 0.1, 0.5, 1.0)
    ]
    assert committed == sorted(committed)
    assert committed[-1] == len(CHAIN)


FORK = TreeShape((-1, 0, 0))
"""A root and two siblings, of which the second is tried where the first is refused."""
POOR_DRAFT = make_tables(VOCABULARY, seed=0, difference=3.0)[1]
"""So bad that much hangs on a bias."""


def accepted_by(bias: float, table: Tensor, shape: TreeShape) -> Tensor:
    """How many rows ended on each node of one step from the root 0, int64 [N]."""
    drafter, rows = SampledDrafter(POOR_DRAFT.to(table.dtype), shape), ROWS
    roots = torch.zeros((rows, 1), dtype=torch.int64)
    context = context_of(roots, torch.zeros(rows, dtype=torch.int64), keys_of(rows), settings_of(rows, PLAIN))
    tree = drafter.propose(context)
    accepted = BiasedVerifier(bias).accept(tree, MarkovBackbone(table).score(tree, context.rows), context)
    ends = accepted.path[torch.arange(rows), accepted.counts - 1]
    return torch.bincount(ends, minlength=len(shape))


def law_of(bias: float, shape: TreeShape) -> Tensor:
    """The chances, [N], that a step ends on each node: a token is accepted with min(1, q / p) + bias."""
    target, draft = transitions(TARGET, PLAIN), transitions(POOR_DRAFT, PLAIN)
    passing = torch.minimum(draft, target + bias * draft)
    if shape is CHAIN:  # alive at each depth, and no longer at the next
        powers = [torch.linalg.matrix_power(passing, depth) for depth in range(len(CHAIN))]
        alive = torch.stack([power[0].sum() for power in powers])
        return alive - torch.cat([alive[1:], torch.zeros(1)])
    left = (target - draft)[0].clamp_min(0)
    first, second = passing[0].sum(), torch.minimum(draft[0], left / left.sum() + bias * draft[0]).sum()
    return torch.stack([(1 - first) * (1 - second), first, (1 - first) * second])


BIASED_CASES = [
    pytest.param(shape, table, bias, id=f"{name}, {table.dtype}, {bias}")
    for name, shape in {"chain": CHAIN, "siblings": FORK}.items()
    for table in (SINGLE, TARGET)
    for bias in (0.1, 0.3)
]


@pytest.mark.parametrize(("shape", "table", "bias"), BIASED_CASES)
def test_a_bias_adds_itself_to_the_chance_of_each_drafted_token(
    shape: TreeShape, table: Tensor, bias: float
) -> None:
    """False-alarm rate 1e-6 of each; at the same rate it is told from a bias squared, halved or dropped."""
    ends = accepted_by(bias, table, shape)
    assert excess(ends, law_of(bias, shape)) < 1
    for wrong in (bias**2, bias / 2, 0.0):
        assert excess(ends, law_of(wrong, shape)) > 1


def test_without_a_draft_the_tokens_are_those_of_plain_decoding() -> None:
    settings = settings_of(200, PLAIN, NARROW)
    plain, ratio = (
        speak(BACKBONE, NullDrafter(), one, settings, 30).tokens for one in (MatchVerifier(), RatioVerifier())
    )
    assert torch.equal(plain, ratio)


def test_what_is_promised() -> None:
    assert RatioVerifier().preserves is Preserves.DISTRIBUTION
    assert BiasedVerifier(0.1).preserves is Preserves.NOTHING
