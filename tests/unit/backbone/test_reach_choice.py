"""Weights are fetched as far ahead as this CPU is fastest with; what they say does not depend on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import pytest
import torch
from talkahead.backbone.backbone import Backbone
from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.backbone.llama import Llama
from talkahead.backbone.native_decoder import NativeDecoder
from talkahead.backbone.reach_choice import settle_reach
from talkahead.speculation.rows import Rows
from talkahead.speculation.token_tree import TokenTree
from torch import Tensor

USUAL, OTHER = 1_152, 4_608
REACHES = (-2 * OTHER, 0, USUAL, OTHER)


class ReachingTalker(NativeDecoder):
    """Its steps take what they are said to, by the reach for their rows; the clock is its own."""

    reach = torch.tensor([])  # type: ignore[assignment]
    fetches_ahead = True  # type: ignore[assignment]

    def __init__(self, seconds: Mapping[int, float], num_slots: int = 8, max_nodes: int = 1) -> None:
        self._seconds, self.now, self.steps, self.max_nodes = seconds, 0.0, 0, max_nodes
        self.reach = torch.tensor([OTHER, *[USUAL] * 6])
        self.open: set[int] = set()
        self.slots = num_slots

    num_slots = property(lambda self: self.slots)  # type: ignore[assignment]
    hidden_size = 4  # type: ignore[assignment]

    def clock(self) -> float:
        return self.now

    def prefill(self, slots: list[int], prompts: Tensor, lengths: list[int]) -> None:  # type: ignore[override]
        self.open |= set(slots)

    def score(self, tree: TokenTree, rows: Rows) -> None:  # type: ignore[override]
        assert len(rows.listed) == len(tree.tokens)
        self.steps += 1
        self.now += self._seconds[int(self.reach[tree.tokens[..., 0].numel()])]

    def release(self, slot: int) -> None:
        self.open.remove(slot)


@pytest.mark.parametrize("fastest", REACHES)
def test_each_number_of_rows_has_the_reach_that_is_fastest(fastest: int) -> None:
    talker = ReachingTalker({reach: 1e-3 if reach == fastest else 2e-3 for reach in REACHES})
    settle_reach(cast(Backbone, talker), talker.clock)
    assert talker.reach.tolist() == [OTHER, *[fastest] * 6]
    assert not talker.open


def test_what_is_hardly_faster_changes_nothing() -> None:
    talker = ReachingTalker({reach: 1e-3 if reach == USUAL else 0.98e-3 for reach in REACHES})
    settle_reach(cast(Backbone, talker), talker.clock)
    assert talker.reach.tolist() == [OTHER, *[USUAL] * 6]


def test_a_talker_of_few_slots_and_slow_steps_is_timed_as_far_as_it_goes() -> None:
    talker = ReachingTalker({reach: 1.0 + abs(reach) for reach in REACHES}, num_slots=2)
    settle_reach(cast(Backbone, talker), talker.clock)
    assert talker.reach.tolist() == [OTHER, 0, 0, *[USUAL] * 4]
    assert talker.steps == 2 * (2 + 2 * len(REACHES))


def test_where_nothing_depends_on_it_nothing_is_timed() -> None:
    talker = ReachingTalker(dict.fromkeys(REACHES, 1.0))
    talker.fetches_ahead = False  # type: ignore[misc]
    settle_reach(cast(Backbone, talker), talker.clock)
    assert talker.steps == 0


def test_where_slots_are_few_nodes_are_timed() -> None:
    talker = ReachingTalker({reach: 1.0 + abs(reach) for reach in REACHES}, num_slots=1, max_nodes=4)
    settle_reach(cast(Backbone, talker), talker.clock)
    assert talker.reach.tolist() == [OTHER, 0, 0, 0, 0, USUAL, USUAL]


@pytest.mark.parametrize(
    "precision",
    [
        pytest.param(torch.float32, id="float32"),
        pytest.param(torch.int8, id="int8", marks=pytest.mark.needs("int8")),
        pytest.param(torch.int4, id="int4", marks=pytest.mark.needs("int8")),
    ],
)
def test_no_bit_depends_on_the_reach(precision: torch.dtype) -> None:
    torch.manual_seed(1)
    config = DecoderConfig(50, 49, 64, 96, 2, 4, 2, 16)
    state = Llama(config).requires_grad_(False).state_dict()
    decoder = NativeDecoder(
        config, state, num_slots=4, max_positions=20, max_nodes=1, precision=precision, threads=1
    )
    assert decoder.reach.min() > 0, "C says what is usual"
    decoder.prefill([0, 1, 2, 3], torch.randn(4, 3, 64), [3] * 4)
    tree, rows = TokenTree(torch.arange(4)[:, None, None]), Rows.of(range(4))
    found = []
    for reach in REACHES:
        decoder.reach.fill_(reach)
        found.append(decoder.score(tree, rows).logits.clone())
    assert all(torch.equal(found[0], other) for other in found[1:])
