"""Costs by a clock that forwards move on: what they are made of is what is found."""

from __future__ import annotations

import pytest
import torch
from talkahead.drafting.acceptance import Acceptance
from talkahead.drafting.draft_sizes import DraftSizes
from talkahead.drafting.offer import Offer
from talkahead.engine.method_book import MethodBook
from talkahead.engine.step_costs import StepCosts
from talkahead.engine.step_timer import ROWS, StepTimer
from talkahead.speculation.contracts import Accepted, Context, Scored
from talkahead.speculation.null_drafter import NullDrafter
from talkahead.speculation.rows import Rows
from talkahead.speculation.target_tokens import TargetTokens
from talkahead.speculation.token_tree import TokenTree, TreeShape, chain_of

SLOTS, VOCABULARY = 4, 5
SIZES = DraftSizes((2, 3, 4, 5), 4)


class Machine:
    """A talker whose step takes 1 and `node` for each node more, times what else the machine does."""

    num_slots, max_positions, vocab_size, hidden_size, eos = SLOTS, 600, VOCABULARY, 4, VOCABULARY - 1
    dtype, device = torch.float32, torch.device("cpu")

    def __init__(self, node: float) -> None:
        self.node, self.now, self.steps = node, 0.0, 0
        self.released: list[int] = []

    def slowness(self) -> float:
        return 1.0

    def prefill(
        self, slots: list[int], prompts: torch.Tensor, lengths: list[int], *, all_hidden: bool = False
    ) -> Scored:
        return Scored(torch.zeros(len(slots), 1, VOCABULARY), torch.zeros(len(slots), 1, 4))

    def score(self, tree: TokenTree, rows: Rows) -> Scored:
        count = len(rows.slots)
        self.steps += 1
        self.now += (1.0 + self.node * (count * tree.num_nodes - 1)) * self.slowness()
        return Scored(torch.zeros(count, tree.num_nodes, VOCABULARY), torch.zeros(count, tree.num_nodes, 4))

    def commit(self, accepted: Accepted, shape: TreeShape, rows: Rows) -> None:
        return None

    def aligned(self, slot: int, first: int, beyond: int) -> None:
        return None

    def release(self, slot: int) -> None:
        self.released.append(slot)


class Chain(NullDrafter):
    """Drafts zeros, each for 0.1."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def propose(self, context: Context) -> TokenTree:
        length = context.draft_request.length(SIZES.nodes[-1] - 1)
        self._machine.now += 0.1 * length * self._machine.slowness()
        tokens = torch.zeros((len(context.roots), length, 1), dtype=torch.int64)
        return TokenTree(torch.cat([context.roots[:, None], tokens], dim=1), chain_of(length))


def measure(machine: Machine, counted: dict[int, float]) -> StepCosts:
    methods = MethodBook(
        Offer({"draft_lm": SIZES}), {"draft_lm": Chain(machine)}, TargetTokens(machine.eos, {})
    )
    acceptance = {"draft_lm": Acceptance("", 1, 0.7, 0.95, counted)}
    return StepTimer(machine, methods, acceptance, clock=lambda: machine.now).measure()  # type: ignore[arg-type]


COUNTED = {2: 1.6, 3: 2.0, 4: 2.2, 5: 2.3}


def test_each_size_costs_what_its_steps_take_draft_included() -> None:
    machine = Machine(node=0.05)
    costs = measure(machine, COUNTED)
    assert costs.rows == [rows for rows in ROWS if rows <= SLOTS]
    for one in costs.measured:
        expected = 1.0 + 0.05 * (one.rows * one.nodes - 1) + 0.1 * (one.nodes - 1)
        assert one.seconds == pytest.approx(expected)
    assert {one.nodes for one in costs.measured} == {1, 2, 3, 4}  # no request gets 5 unasked
    assert costs.is_steady


def test_slots_are_given_back() -> None:
    machine = Machine(node=0.05)
    measure(machine, COUNTED)
    assert set(machine.released) == set(range(SLOTS))


def test_a_machine_that_slows_down_meanwhile_gives_the_same_ratios() -> None:
    """Plain steps are timed just before each size, not once at the beginning."""

    class Slowing(Machine):
        def slowness(self) -> float:
            return 1.0 + self.steps / 200

    costs, steady = measure(Slowing(0.05), COUNTED), measure(Machine(0.05), COUNTED)
    for one in steady.measured:
        ratio = one.seconds / steady.seconds("none", 1, one.rows)
        found = costs.seconds("draft_lm", one.nodes, one.rows) / costs.seconds("none", 1, one.rows)
        assert found == pytest.approx(ratio, rel=0.1)


def test_a_busy_machine_s_figures_are_not_steady() -> None:
    class Busy(Machine):
        def slowness(self) -> float:
            return 1.0 + 3.0 * (self.steps * 7 % 97 / 97 > 0.5)

    assert not measure(Busy(0.05), COUNTED).is_steady


def test_sizes_that_cannot_pay_are_not_tried() -> None:
    costs = measure(Machine(node=2.0), {2: 1.1, 3: 1.2, 4: 1.3})
    assert max(one.nodes for one in costs.measured if one.rows == 4) == 2
