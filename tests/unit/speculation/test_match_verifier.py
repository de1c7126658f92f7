"""Whatever the tree, `match` speaks what plain decoding would have spoken."""

from __future__ import annotations

import pytest
import torch
from talkahead.speculation.contracts import Context, Scored
from talkahead.speculation.draws import stream_keys
from talkahead.speculation.match_verifier import MatchVerifier
from talkahead.speculation.rows import Rows
from talkahead.speculation.sampling import SamplingSettings
from talkahead.speculation.token_tree import ROOT_ALONE, TokenTree, TreeShape
from talkahead.speculation.torch_walk import follow
from torch import Tensor

STATES, ROWS, LENGTH = 6, 5, 60
BUSHY = TreeShape((-1, 0, 0, 1, 1, 2))
TWINS = TreeShape((-1, 0, 0, 0, 1, 2, 3, 5))
CHAIN = TreeShape((-1, 0, 1, 2))


def test_follow_walks_a_worked_example() -> None:
    tokens = torch.tensor([[9, 5, 6, 7, 8, 7]])[:, :, None]
    drawn = torch.tensor([[5, 8, 0, 1, 3, 0]])  # after 0 comes 5 (node 1), after 1 comes 8 (node 4), then 3
    accepted = follow(TokenTree(tokens, BUSHY), drawn)
    assert accepted.counts.tolist() == [3]
    assert accepted.path.tolist() == [[0, 1, 4]]
    assert accepted.next_roots.tolist() == [[3]]


def test_of_equal_siblings_the_first_is_followed() -> None:
    tokens = torch.tensor([[9, 5, 5, 7, 8, 7]])[:, :, None]
    drawn = torch.tensor([[5, 0, 0, 1, 3, 0]])
    assert follow(TokenTree(tokens, BUSHY), drawn).path.tolist() == [[0, 1, 0]]


def speak(shape: TreeShape, temperature: float, keys: Tensor) -> list[list[int]]:
    """ROWS streams from a Markov model that knows only the last token, drafted at random."""
    generator = torch.Generator().manual_seed(1)
    table = 2 * torch.randn((STATES, STATES), generator=generator, dtype=torch.float64)
    verifier = MatchVerifier()
    roots = torch.zeros((ROWS, 1), dtype=torch.int64)
    positions = torch.zeros(ROWS, dtype=torch.int64)
    settings = SamplingSettings.of(
        torch.full((ROWS,), temperature, dtype=torch.float64),
        torch.full((ROWS,), 0),
        torch.full((ROWS,), 0.95, dtype=torch.float64),
    )
    spoken: list[list[int]] = [[0] for _ in range(ROWS)]
    while min(map(len, spoken)) < LENGTH:
        draft = torch.randint(STATES, (ROWS, len(shape) - 1, 1), generator=generator)
        tree = TokenTree(torch.cat([roots[:, None], draft], dim=1), shape)
        logits = table[tree.ids]
        context = Context(
            Rows.of(range(ROWS)), roots, positions, torch.empty(0), torch.empty(0), keys, settings
        )
        accepted = verifier.accept(tree, Scored(logits, torch.empty(0)), context)
        for row in range(ROWS):
            path = accepted.path[row, 1 : int(accepted.counts[row])]
            spoken[row] += tree.tokens[row, path, 0].tolist() + accepted.next_roots[row].tolist()
        roots, positions = accepted.next_roots, positions + accepted.counts
    return [tokens[:LENGTH] for tokens in spoken]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("shape", [BUSHY, TWINS, CHAIN], ids=["bushy", "twins", "chain"])
def test_a_tree_changes_no_token(shape: TreeShape, temperature: float) -> None:
    keys = stream_keys(torch.arange(ROWS), torch.zeros(ROWS, dtype=torch.int64))
    assert speak(shape, temperature, keys) == speak(ROOT_ALONE, temperature, keys)


def test_seeds_speak_differently() -> None:
    zeros = torch.zeros(ROWS, dtype=torch.int64)
    first = speak(ROOT_ALONE, 1.0, stream_keys(zeros + 1, zeros))
    assert first == speak(ROOT_ALONE, 1.0, stream_keys(zeros + 1, zeros))
    assert first != speak(ROOT_ALONE, 1.0, stream_keys(zeros + 2, zeros))
    assert first[0] == first[1]
