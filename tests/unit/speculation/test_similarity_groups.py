"""Groups from embeddings, and their sums, against dense matrices and cases counted by hand."""

from __future__ import annotations

import pytest
import torch
from talkahead.speculation.similarity_groups import SimilarityGroups, cosine_of
from torch import Tensor

# Five directions in a plane, in degrees, and a token far away.
ANGLES = torch.tensor([0.0, 20.0, 40.0, 90.0, 90.0, 200.0]).deg2rad()
EMBEDDINGS = torch.stack([ANGLES.cos(), ANGLES.sin()], dim=1) * torch.tensor([1.0, 2, 3, 1, 5, 1])[:, None]


def membership(groups: SimilarityGroups, vocabulary: int) -> Tensor:
    """Dense bool [M, V], from the members; the owners must say the same."""
    dense = torch.zeros((groups.num_groups, vocabulary), dtype=torch.bool)
    for group, (start, size) in enumerate(zip(groups.starts, groups.sizes, strict=True)):
        dense[group, groups.members[start : start + size]] = True
    transposed = torch.zeros_like(dense)
    for token, (start, size) in enumerate(zip(groups.owner_starts, groups.num_owners, strict=True)):
        transposed[groups.owners[start : start + size], token] = True
    assert torch.equal(dense, transposed)
    return dense


def sets(groups: SimilarityGroups) -> set[frozenset[int]]:
    return {frozenset(row.nonzero()[:, 0].tolist()) for row in membership(groups, len(EMBEDDINGS))}


def test_groups_of_a_worked_example() -> None:
    """Below 30 degrees: 0 with 1, 1 with both neighbours, 2 with 1; the two at 90 degrees share one group."""
    groups = SimilarityGroups.of(EMBEDDINGS, threshold=0.866)
    assert sets(groups) == {frozenset(one) for one in ({0, 1}, {0, 1, 2}, {1, 2}, {3, 4}, {5})}
    assert groups.num_owners.tolist() == [2, 3, 2, 1, 1, 1]
    assert groups.mean_size == 10 / 5
    assert groups.largest_size == 3


def test_what_is_no_sound_stays_alone() -> None:
    groups = SimilarityGroups.of(EMBEDDINGS, threshold=0.866, alone=(1, 4))
    assert sets(groups) == {frozenset({token}) for token in range(6)}


@pytest.mark.parametrize("threshold", [0.9999999, 1.0])
def test_a_high_threshold_leaves_every_token_alone(threshold: float) -> None:
    torch.manual_seed(0)
    groups = SimilarityGroups.of(torch.randn(50, 8, dtype=torch.float32), threshold)
    assert groups.mean_size == 1.0 and groups.num_groups == 50
    probs = torch.rand(3, 50)
    assert torch.equal(groups.masses(probs).sort().values, probs.sort().values)


def test_a_low_threshold_makes_one_group() -> None:
    groups = SimilarityGroups.of(EMBEDDINGS, threshold=-1.0, alone=(5,))
    assert sets(groups) == {frozenset(range(5)), frozenset({5})}
    torch.testing.assert_close(groups.masses(torch.full((1, 6), 1 / 6)), torch.tensor([[5 / 6, 1 / 6]]))


def test_groups_that_reach_over_blocks_are_those_of_all_cosines_at_once() -> None:
    torch.manual_seed(0)
    embeddings = torch.randn(1_300, 6)
    embeddings[900:] = 2.0 * embeddings[:400]
    unit = torch.nn.functional.normalize(embeddings.double(), dim=1)
    dense = (unit @ unit.T > 0.7) | torch.eye(1_300, dtype=torch.bool)
    dense[:, 7] = dense[7] = False
    dense[7, 7] = True
    groups = SimilarityGroups.of(embeddings, 0.7, alone=[7])
    assert torch.equal(torch.unique(membership(groups, 1_300), dim=0), torch.unique(dense, dim=0))
    assert groups.num_groups < 1_300


def test_an_embedding_of_zeros_is_alone() -> None:
    embeddings = EMBEDDINGS.clone()
    embeddings[1] = 0.0
    assert frozenset({1}) in sets(SimilarityGroups.of(embeddings, threshold=0.5))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("rows", [1, 5, 16, 33])
def test_sums_are_those_of_dense_matrices(dtype: torch.dtype, rows: int) -> None:
    torch.manual_seed(rows)
    groups = SimilarityGroups.of(torch.randn(60, 4), threshold=0.7)
    assert groups.largest_size > 3
    dense = membership(groups, 60).to(dtype)
    weights = dense / dense.sum(0)  # w[k, t], equation 3
    probs = torch.softmax(torch.randn(rows, 60, dtype=dtype), dim=1)
    masses = groups.masses(probs)
    torch.testing.assert_close(masses, probs @ weights.T)
    torch.testing.assert_close(masses.sum(1), torch.ones(rows, dtype=dtype))
    left = torch.rand(rows, groups.num_groups, dtype=dtype)
    given_group = probs[:, None] * weights / masses[..., None]  # Pr(t | k), equation 10
    expected = (left[..., None] * given_group).sum(1)
    torch.testing.assert_close(groups.token_weights(probs, left), expected)
    torch.testing.assert_close(groups.token_weights(probs, masses), probs)


def test_tokens_that_the_target_never_says_weigh_nothing() -> None:
    groups = SimilarityGroups.of(EMBEDDINGS, threshold=0.866)
    probs = torch.tensor([[0.0, 0.0, 0.0, 0.4, 0.6, 0.0]])
    weights = groups.token_weights(probs, torch.ones(1, groups.num_groups))
    torch.testing.assert_close(weights, probs)


def test_a_row_sums_the_same_in_any_company() -> None:
    torch.manual_seed(0)
    groups = SimilarityGroups.of(torch.randn(200, 4), threshold=0.6)
    probs = torch.rand(21, 200)
    together = groups.masses(probs)
    for row in (0, 7, 20):
        assert torch.equal(groups.masses(probs[row : row + 1])[0], together[row])


def test_labels_are_drawn_in_equal_parts() -> None:
    """Token 1 is in three groups; the numbers cover (0, 1) evenly."""
    groups = SimilarityGroups.of(EMBEDDINGS, threshold=0.866)
    chances = (torch.arange(300, dtype=torch.float64) + 0.5) / 300
    labels = groups.label(torch.ones(300, dtype=torch.int64), chances)
    dense = membership(groups, 6)
    assert bool(dense[labels, 1].all())
    assert torch.bincount(labels, minlength=5)[dense[:, 1]].tolist() == [100, 100, 100]
    assert groups.label(torch.tensor([1]), torch.tensor([1 - 2.0**-53], dtype=torch.float64)) == labels[-1]


def test_a_threshold_gives_the_mean_number_of_neighbours() -> None:
    embeddings = torch.randn(200, 8, generator=torch.Generator().manual_seed(0))
    unit = torch.nn.functional.normalize(embeddings, dim=1)
    cosines = (unit @ unit.T).fill_diagonal_(1.0)
    for size in (1.5, 5.0, 20.0):
        neighbours = (cosines > cosine_of(embeddings, size)).sum(1).double().mean()
        assert float(neighbours) == pytest.approx(size, rel=0.02)
