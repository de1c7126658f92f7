"""Everything of a tree derives from who is whose parent."""

from __future__ import annotations

import pytest
import torch
from talkahead.speculation.token_tree import ROOT_ALONE, TokenTree, TreeShape, chain_of

#        0
#      /   \
#     1     2
#    / \     \
#   3   4     5
BUSHY = TreeShape((-1, 0, 0, 1, 1, 2))


def test_depths_and_levels() -> None:
    assert BUSHY.depths == (0, 1, 1, 2, 2, 2)
    assert BUSHY.levels == ((0,), (1, 2), (3, 4, 5))
    assert BUSHY.children == ((1, 2), (3, 4), (5,), (), (), ())


def test_ancestors_are_the_attention_mask() -> None:
    expected = [
        [1, 0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0],
        [1, 0, 1, 0, 0, 0],
        [1, 1, 0, 1, 0, 0],
        [1, 1, 0, 0, 1, 0],
        [1, 0, 1, 0, 0, 1],
    ]
    assert torch.equal(BUSHY.ancestors, torch.tensor(expected, dtype=torch.bool))


def test_paths_run_from_the_root() -> None:
    expected = [[0, -1, -1], [0, 1, -1], [0, 2, -1], [0, 1, 3], [0, 1, 4], [0, 2, 5]]
    assert torch.equal(BUSHY.paths, torch.tensor(expected))


def test_a_chain_is_known_as_one() -> None:
    assert TreeShape((-1, 0, 1)).is_chain
    assert not TreeShape((-1, 0, 0)).is_chain
    assert ROOT_ALONE.is_chain and ROOT_ALONE.is_root_alone


@pytest.mark.parametrize("parents", [(), (0,), (-1, 1), (-1, 2, 0), (-1, -1)])
def test_parents_come_before_children(parents: tuple[int, ...]) -> None:
    with pytest.raises(AssertionError):
        TreeShape(parents)


def test_children_are_listed_in_order() -> None:
    assert BUSHY.widths == (2, 2)
    assert BUSHY.child_table.tolist() == [[1, 2], [3, 4], [5, -1], [-1, -1], [-1, -1], [-1, -1]]
    assert BUSHY.parent_row.tolist() == [0, 0, 0, 1, 1, 2]
    assert ROOT_ALONE.widths == ()
    assert TreeShape((-1, 0, 1, 1, 1)).widths == (1, 3)


def test_ids_are_the_tokens_of_one_codebook_and_of_no_more() -> None:
    tokens = torch.arange(6).view(2, 3, 1)
    ids = TokenTree(tokens, chain_of(2)).ids
    assert ids.tolist() == [[0, 1, 2], [3, 4, 5]] and ids.data_ptr() == tokens.data_ptr()
    with pytest.raises(ValueError, match="a node of 2 codes has no single id"):
        _ = TokenTree(tokens.repeat(1, 1, 2), chain_of(2)).ids
