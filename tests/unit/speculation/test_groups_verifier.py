"""`groups` keeps the group's distribution at each step, and its residual is what trials would give.

All statistics are of fixed seeds; their bounds are what a true source exceeds once in a million.
"""

from __future__ import annotations

import pytest
import torch
from markov_speech import (
    BUSHY,
    CHAIN,
    TWINS,
    BestDrafter,
    MarkovBackbone,
    SampledDrafter,
    context_of,
    excess,
    keys_of,
    make_tables,
    settings_of,
    speak,
    transitions,
)
from talkahead.speculation.contracts import Drafter, Preserves
from talkahead.speculation.draws import Purpose, draw_keys, uniforms
from talkahead.speculation.groups_verifier import GroupsVerifier
from talkahead.speculation.ratio_verifier import RatioVerifier
from talkahead.speculation.similarity_groups import SimilarityGroups
from talkahead.speculation.token_tree import TreeShape
from torch import Tensor

VOCABULARY, ROWS = 8, 30_000
TARGET, DRAFT = make_tables(VOCABULARY, seed=3, difference=1.0)
BACKBONE = MarkovBackbone(TARGET)
PLAIN = (1.0, 0, 1.0)


def grouped(is_member: Tensor) -> SimilarityGroups:
    """From bool [M, V]."""
    return SimilarityGroups.from_sizes(is_member.nonzero()[:, 1], is_member.sum(1), is_member.shape[1])


OVERLAPPING = grouped(
    torch.tensor(
        [
            [1, 1, 0, 0, 0, 0, 0, 0],
            [1, 1, 1, 0, 0, 0, 0, 0],
            [0, 1, 1, 1, 0, 0, 0, 0],
            [0, 0, 0, 1, 1, 1, 0, 0],
            [0, 0, 0, 0, 0, 1, 1, 0],
            [0, 0, 0, 0, 0, 0, 0, 1],
        ],
        dtype=torch.bool,
    )
)
PARTITION = grouped(
    torch.tensor(
        [[1, 1, 0, 0, 1, 0, 0, 0], [0, 0, 1, 1, 0, 1, 0, 0], [0, 0, 0, 0, 0, 0, 1, 1]], dtype=torch.bool
    )
)
ALONE = SimilarityGroups.of(torch.eye(VOCABULARY), threshold=0.5)


def split(groups: SimilarityGroups) -> Tensor:
    """w[k, t], [M, V], one token at a time."""
    return groups.masses(torch.eye(VOCABULARY, dtype=torch.float64)).T


def one_step(
    groups: SimilarityGroups, drafter: Drafter, roots: Tensor, backbone: MarkovBackbone = BACKBONE
) -> tuple[Tensor, Tensor, Tensor]:
    """Of one step: the tokens after each depth [B, 4], how many there are [B], and the accepted labels.

    Labels, [B, 3], are those of a chain, drawn again as the verifier draws them.
    """
    settings, positions = settings_of(len(roots), PLAIN), torch.zeros(len(roots), dtype=torch.int64)
    context = context_of(roots, positions, keys_of(len(roots)), settings)
    tree = drafter.propose(context)
    accepted = GroupsVerifier(groups).accept(tree, backbone.score(tree, context.rows), context)
    rows = torch.arange(len(roots))
    tokens = tree.tokens[rows[:, None], accepted.path, 0].roll(-1, dims=1)
    tokens[rows, accepted.counts - 1] = accepted.next_roots[:, 0]
    labels = []
    for depth in range(1, tree.num_nodes):
        keys = draw_keys(context.keys, positions + depth, Purpose.ACCEPT)
        labels.append(groups.label(tree.tokens[:, depth, 0], uniforms(keys, torch.tensor(1))))
    return tokens, accepted.counts, torch.stack(labels, dim=1)


@pytest.mark.parametrize("groups", [OVERLAPPING, PARTITION, ALONE], ids=["overlapping", "partition", "alone"])
def test_given_the_prefix_groups_have_the_targets_probability(groups: SimilarityGroups) -> None:
    """A chain of three: at each depth, of the rows that got there, by the token spoken before."""
    roots = (torch.arange(ROWS) % VOCABULARY)[:, None]
    tokens, counts, labels = one_step(groups, SampledDrafter(DRAFT, CHAIN), roots)
    coarse_target = groups.masses(transitions(TARGET, PLAIN))
    coarse_draft = groups.masses(transitions(DRAFT, PLAIN))
    before = roots[:, 0]
    for depth in range(3):
        is_accepted, is_refused = counts > depth + 1, counts == depth + 1
        label = labels[:, depth].clone()
        # The label that a token was drawn with after a refusal: by Bayes from equations 8 and 10.
        left = (coarse_target - coarse_draft).clamp_min(0)[before[is_refused]]
        of_token = split(groups)[:, tokens[is_refused, depth]].T / coarse_target[before[is_refused]] * left
        label[is_refused] = torch.multinomial(of_token, 1, generator=torch.Generator().manual_seed(depth))[
            :, 0
        ]
        is_here = is_accepted | is_refused
        assert is_here.sum() > 1_000 * (depth < 2)
        for token in range(VOCABULARY):
            chosen = label[is_here & (before == token)]
            found = torch.bincount(chosen, minlength=groups.num_groups)
            assert excess(found, coarse_target[token]) < 1
        before = tokens[:, depth]


@pytest.mark.parametrize(("forbidden", "more"), [([], 0.05), ([1, 5], 0.0)], ids=["no rule", "rules"])
@pytest.mark.parametrize("groups", [OVERLAPPING, PARTITION], ids=["overlapping", "partition"])
def test_what_is_accepted_and_what_replaces_it_are_as_derived(
    groups: SimilarityGroups, forbidden: list[int], more: float
) -> None:
    """After the root 2, one drafted token: accepted labels have min(P, Q), and refusals speak equation 10.

    Of what rules forbid nothing is accepted, and P has no part of it.
    """
    roots, target = torch.full((ROWS, 1), 2), TARGET.clone()
    target[:, forbidden] = -torch.inf
    drafter = SampledDrafter(DRAFT, TreeShape((-1, 0)))
    tokens, counts, labels = one_step(groups, drafter, roots, MarkovBackbone(target))
    assert not torch.isin(tokens[:, 0], torch.tensor(forbidden)).any()
    q, p = transitions(target, PLAIN)[2], transitions(DRAFT, PLAIN)[2]
    p[forbidden] = 0.0
    coarse_q, coarse_p, weights = split(groups) @ q, split(groups) @ p, split(groups)
    replaced = ((coarse_q - coarse_p).clamp_min(0) / coarse_q) @ (weights * q)
    expected = torch.cat([torch.minimum(coarse_p, coarse_q), replaced])
    assert abs(float(expected.sum()) - 1) < 1e-12
    is_accepted = counts == 2
    found = torch.cat(
        [
            torch.bincount(labels[is_accepted, 0], minlength=groups.num_groups),
            torch.bincount(tokens[~is_accepted, 0], minlength=VOCABULARY),
        ]
    )
    assert excess(found, expected) < 1
    by_token = torch.minimum(p, q).sum()
    assert expected[: groups.num_groups].sum() > by_token + more, "groups accept more than tokens"


@pytest.mark.parametrize(
    "drafter",
    [
        SampledDrafter(DRAFT.float(), BUSHY),
        SampledDrafter(DRAFT.float(), TWINS),
        SampledDrafter(DRAFT.float(), TWINS, is_distinct=True),
        BestDrafter(DRAFT.float(), TWINS),
    ],
    ids=["bushy", "twins", "distinct twins", "best of twins"],
)
def test_with_several_children_groups_keep_their_probability(drafter: Drafter) -> None:
    """In groups that do not overlap a token tells its group; after the root and after each first token.

    In float32, by the walk in C; the other tests are in float64, by tensors.
    """
    roots = torch.zeros((ROWS, 1), dtype=torch.int64)
    tokens, counts, _ = one_step(PARTITION, drafter, roots, MarkovBackbone(TARGET.float()))
    coarse = PARTITION.masses(transitions(TARGET, PLAIN))
    label = PARTITION.label(tokens.flatten(), torch.full((tokens.numel(),), 0.5)).view_as(tokens)
    assert excess(torch.bincount(label[:, 0], minlength=3), coarse[0]) < 1
    for token in tokens[counts > 1, 0].unique():
        chosen = label[(counts > 1) & (tokens[:, 0] == token), 1]
        assert excess(torch.bincount(chosen, minlength=3), coarse[token]) < 1


def test_tokens_within_a_group_do_not_follow_the_target() -> None:
    """What `groups` gives up, and what the tests above would notice in tokens."""
    tokens, _, _ = one_step(
        PARTITION, SampledDrafter(DRAFT, CHAIN), torch.zeros((ROWS, 1), dtype=torch.int64)
    )
    found = torch.bincount(tokens[:, 0], minlength=VOCABULARY)
    assert excess(found, transitions(TARGET, PLAIN)[0]) > 1


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_residual_is_what_trials_give(seed: int) -> None:
    """Equation 9: draw y from q and a group of it, accept the group, or begin again."""
    generator = torch.Generator().manual_seed(seed)
    q, p = torch.softmax(torch.randn(2, VOCABULARY, generator=generator, dtype=torch.float64), dim=1)
    coarse_q, coarse_p = OVERLAPPING.masses(torch.stack([q, p]))
    left = (coarse_q - coarse_p).clamp_min(0)
    exact = OVERLAPPING.token_weights(q[None], left[None])[0] / left.sum()
    torch.testing.assert_close(exact.sum(), torch.tensor(1.0, dtype=torch.float64))

    trials = 400_000
    tokens = torch.multinomial(q, trials, replacement=True, generator=generator)
    groups = OVERLAPPING.label(tokens, torch.rand(trials, generator=generator, dtype=torch.float64))
    chances = torch.rand(trials, generator=generator, dtype=torch.float64)
    is_accepted = chances < (1 - coarse_p / coarse_q).clamp_min(0)[groups]
    assert excess(torch.bincount(tokens[is_accepted], minlength=VOCABULARY), exact) < 1
    assert (
        excess(torch.bincount(groups[is_accepted], minlength=OVERLAPPING.num_groups), left / left.sum()) < 1
    )
    # As many trials as the paper says: 1 / TV(P, Q) each.
    distance = left.sum()
    deviation = (distance * (1 - distance) / trials).sqrt()
    assert abs(is_accepted.double().mean() - distance) < 5 * deviation


@pytest.mark.parametrize(
    "drafter",
    [SampledDrafter(DRAFT, CHAIN), SampledDrafter(DRAFT, TWINS, is_distinct=True), BestDrafter(DRAFT, BUSHY)],
    ids=["chain", "distinct twins", "best of bushy"],
)
def test_groups_of_one_token_are_ratio(drafter: Drafter) -> None:
    settings = settings_of(200, PLAIN, (0.7, 4, 0.9), (0.0, 0, 1.0))
    ratio, groups = (
        speak(BACKBONE, drafter, one, settings, 40) for one in (RatioVerifier(), GroupsVerifier(ALONE))
    )
    assert torch.equal(ratio.tokens, groups.tokens)
    assert ratio.committed_per_step == groups.committed_per_step


def test_larger_groups_accept_more() -> None:
    settings = settings_of(500, PLAIN)
    committed = [
        speak(BACKBONE, SampledDrafter(DRAFT, CHAIN), GroupsVerifier(one), settings, 30).committed_per_step
        for one in (ALONE, OVERLAPPING, PARTITION)
    ]
    assert committed == sorted(committed) and committed[0] < committed[-1] - 0.3


def test_what_is_promised() -> None:
    assert GroupsVerifier(ALONE).preserves is Preserves.GROUPS
