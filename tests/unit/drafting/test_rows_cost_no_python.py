"""A step's Python does not grow with its rows: what is done for each of them is done by tensors or in C."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from bytecodes import bytecodes_of
from crowd import Crowd
from talkahead.backbone.llama import Llama
from talkahead.config import RequestOptions
from talkahead.engine.decode_step import Admission
from talkahead.engine.method import Method
from talkahead.speculation.contracts import Accepted, Context, Scored
from talkahead.speculation.match_verifier import MatchVerifier
from talkahead.speculation.token_tree import TokenTree
from tiny_talker import WIDTH, make_llama

FEW, MANY, STEPS = 8, 32, 5
"""Rows, and the steps in which they are counted. A part of one row, which takes ways of its own, is none."""
VERIFIERS = {
    "none": ("match",),
    "heads": ("match", "tolerance", "topk"),
    "mtp": ("match", "ratio", "biased", "tolerance", "topk"),
    "draft_lm": ("match", "ratio", "biased", "groups", "tolerance", "topk"),
}
SAMPLED = RequestOptions(temperature=0.9)
PAIRS = [(drafter, verifier) for drafter, own in VERIFIERS.items() for verifier in own]
MIXED = [("none", "match"), ("heads", "tolerance"), ("mtp", "topk"), ("draft_lm", "groups")]
DTYPES = [
    pytest.param(torch.float64, id="torch"),
    pytest.param(torch.float32, id="native"),
    pytest.param(torch.bfloat16, id="native bfloat16", marks=pytest.mark.needs("bfloat16")),
]


@pytest.fixture(scope="module")
def llama() -> Llama:
    return make_llama()


@pytest.fixture(params=DTYPES)
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    chosen: torch.dtype = request.param
    return chosen


class Growing(MatchVerifier):
    """Does something for each row in Python."""

    def accept(self, tree: TokenTree, scored: Scored, context: Context) -> Accepted:
        for _ in range(tree.num_rows):
            pass
        return super().accept(tree, scored, context)

    def call(self, tree: TokenTree, scored: Scored, context: Context) -> None:
        """None: it is Python."""
        return None


def method_of(crowd: Crowd, pair: tuple[str, str]) -> Method:
    drafter, verifier = pair
    if verifier == "growing":
        return replace(method_of(crowd, (drafter, "match")), verifier=Growing())
    pinned = None if drafter == "none" else True
    return crowd.book.of(RequestOptions(drafter=drafter, verifier=verifier, pin_draft=pinned))


def counted(
    llama: Llama, dtype: torch.dtype, rows: int, *pairs: tuple[str, str], options: RequestOptions = SAMPLED
) -> list[int]:
    """The bytecodes of each of a few steps of rows that all say the same, so that data make no difference.

    Each pair has as many rows as the others. What a step keeps for the next ones has been made before.
    """
    crowd = Crowd(llama, MANY, dtype)
    prompt = torch.randn((4, WIDTH), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    each = rows // len(pairs)
    methods = [method_of(crowd, pair) for pair in pairs]
    crowd.step.admit([Admission(slot, prompt, options, 5, 0, methods[slot // each]) for slot in range(rows)])
    crowd.step.run(range(rows))
    return [bytecodes_of(lambda: crowd.step.run(range(rows))) for _ in range(STEPS)]


def growth(
    llama: Llama, dtype: torch.dtype, *pairs: tuple[str, str], options: RequestOptions = SAMPLED
) -> float:
    """Bytecodes of a step for each row more, at most."""
    counted(llama, dtype, FEW, *pairs, options=options)  # for what is computed once per process
    few, many = (counted(llama, dtype, rows, *pairs, options=options) for rows in (FEW, MANY))
    assert min(few) > 100
    return max(more - less for less, more in zip(few, many, strict=True)) / (MANY - FEW)


# Less than one for each row, not none: a cache compares equal keys, or sees that they are one object.
# The shortest loop takes 3.


@pytest.mark.parametrize("pair", PAIRS, ids="+".join)
def test_a_step_of_many_rows_runs_the_python_of_a_step_of_few(
    llama: Llama, dtype: torch.dtype, pair: tuple[str, str]
) -> None:
    assert growth(llama, dtype, pair) < 1


def test_so_does_a_step_of_rows_of_several_methods(llama: Llama, dtype: torch.dtype) -> None:
    assert growth(llama, dtype, *MIXED) < 1


@pytest.mark.parametrize("pair", [("none", "match"), ("heads", "match"), ("draft_lm", "ratio")], ids="+".join)
def test_so_does_a_step_of_rows_under_rules(llama: Llama, dtype: torch.dtype, pair: tuple[str, str]) -> None:
    ruled = replace(SAMPLED, repetition_penalty=1.2, ras_win_len=10)
    assert growth(llama, dtype, pair, options=ruled) < 1


def test_a_loop_over_rows_is_noticed(llama: Llama, dtype: torch.dtype) -> None:
    assert growth(llama, dtype, ("heads", "growing")) >= 3
