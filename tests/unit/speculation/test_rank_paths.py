"""Trees from counted rank paths, where the answer can be counted by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest
from talkahead.speculation.rank_paths import RankPaths, RankTree

# Two heads; each row: the ranks of the two tokens that follow a root.
RANKS = np.array([[0, 0], [0, 1], [0, 1], [1, 0], [1, 9], [3, 0], [0, 0], [0, 1]])


def test_paths_end_where_a_head_has_no_such_candidate() -> None:
    paths = RankPaths.count(RANKS, width=3)
    assert paths.total == 8
    assert paths.counts == {(0,): 5, (1,): 2, (0, 0): 2, (0, 1): 3, (1, 0): 1}


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
