"""Trees from counted rank paths, where the answer can be counted by hand."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest
from talkahead.drafting.rank_paths import AcceptedPaths, RankPaths, RankTree

# Two heads; each row: the ranks of the two tokens that follow a root.
RANKS = np.array([[0, 0], [0, 1], [0, 1], [1, 0], [1, 9], [3, 0], [0, 0], [0, 1]])


def test_paths_end_where_a_head_has_no_such_candidate() -> None:
    paths = RankPaths.count(RANKS, width=3)
    assert paths.total == 8
    assert paths.counts == {(0,): 5, (1,): 2, (0, 0): 2, (0, 1): 3, (1, 0): 1}


def test_uncounted_heads_are_thought_to_be_right_half_the_time() -> None:
    paths = RankPaths.assumed(2)
    tree = paths.best_tree(6)
    assert tree.paths == ((0,), (1,), (2,), (0, 0), (0, 1))
    assert paths.committed_per_step(tree) == 1 + 1 / 2 + 1 / 4 + 1 / 8 + 1 / 4 + 1 / 8
    assert RankPaths.assumed(1).best_tree(4).paths == ((0,), (1,), (2,))


def test_the_best_tree_takes_the_most_followed_paths() -> None:
    paths = RankPaths.count(RANKS, width=3)
    tree = paths.best_tree(4)
    assert tree.paths == ((0,), (1,), (0, 1))
    assert tree.shape.parents == (-1, 0, 0, 1)
    assert paths.committed_per_step(tree) == 1 + (5 + 2 + 3) / 8


def test_no_tree_of_its_size_is_better() -> None:
    draw = np.random.default_rng(0)
    ranks = draw.geometric(0.5, (400, 3)) - 1
    paths = RankPaths.count(ranks, width=3)
    best = paths.committed_per_step(paths.best_tree(5))
    for _ in range(300):
        chosen: list[tuple[int, ...]] = []
        while len(chosen) < 4:
            path = (*([(), *chosen][draw.integers(len(chosen) + 1)]), int(draw.integers(3)))
            if len(path) <= 3 and path not in chosen:
                chosen.append(path)
        assert paths.committed_per_step(RankTree(tuple(chosen))) <= best


def test_more_nodes_than_paths_make_a_smaller_tree() -> None:
    assert len(RankPaths.count(RANKS, width=3).best_tree(64).shape) == 6


def test_steps_go_on_behind_the_accepted_path() -> None:
    tree = RankTree(((0,), (1,), (0, 1)))
    # Root 0 accepts nothing, root 1 one token, root 3 two tokens, root 6 stops before the end.
    ranks = np.array([[5, 0], [1, 0], [9, 9], [0, 1], [9, 9], [9, 9], [0, 7]])
    assert tree.steps(ranks) == 4
    assert RankTree(()).steps(ranks) == len(ranks)


def test_a_tree_survives_its_manifest() -> None:
    tree = RankPaths.count(RANKS, width=3).best_tree(5)
    assert RankTree.from_lists(json.loads(json.dumps(tree.paths))) == tree
    assert len(RankTree.from_lists([]).shape) == 1


@pytest.mark.parametrize("paths", [[[0], [0]], [[0, 1], [0]], [[1, 0]], [[-1]], [[]]])
def test_paths_that_are_no_tree_are_refused(paths: list[list[int]]) -> None:
    with pytest.raises(ValueError, match="no tree"):
        RankTree.from_lists(paths)


def accepted(*rows: str) -> AcceptedPaths:
    """Of the nodes 0, 1, 00, 10, in this order; "x" where one was accepted."""
    tree = RankTree(((0,), (1,), (0, 0), (1, 0)))
    return AcceptedPaths(tree, np.array([[mark == "x" for mark in row] for row in rows]))


def test_of_several_accepted_paths_the_longest_counts() -> None:
    """Two siblings that are accepted together bring no more than one of them."""
    counted = accepted("xx..", "xx..", "x.x.", "....")
    assert counted.total == 4
    assert counted.committed_per_step(RankTree(((0,), (1,)))) == 1 + 3 / 4
    assert counted.committed_per_step(RankTree(((0,), (0, 0)))) == 1 + 4 / 4
    assert counted.committed_per_step(RankTree(())) == 1


def test_a_node_is_chosen_by_what_it_adds_to_those_before() -> None:
    """1 is accepted twice as often as 00, but never where 0 is not."""
    counted = accepted("xx..", "xx..", "x.x.")
    assert counted.best_tree(3).paths == ((0,), (0, 0))
    assert counted.best_tree(4).paths == ((0,), (1,), (0, 0))
    assert len(counted.best_tree(9).paths) == 4
    by_ranks = RankPaths(Counter({(0,): 3, (1,): 2, (0, 0): 1}), 3)
    assert by_ranks.best_tree(3).paths == ((0,), (1,))
