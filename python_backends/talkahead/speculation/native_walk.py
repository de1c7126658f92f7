"""Verifiers' walks over trees on CPUs in one C call (`native/sampler.c`), `walk.Walk` of float32 logits.

A walk looks at the nodes that it comes to, of a tree of 64 at three or four; tensors look at all of them.

Shapes: B rows, N nodes, M nodes of a path at most, V vocabulary, D hidden size.
"""

from __future__ import annotations

from ctypes import pointer
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

import torch
from torch import Tensor

from talkahead.native_declarations import NativeStruct, native_struct
from talkahead.native_library import NativeCall, load_library
from talkahead.speculation.context_addresses import ContextAddresses
from talkahead.speculation.contracts import AcceptCall, Accepted, Context, Scored
from talkahead.speculation.draws import Purpose
from talkahead.speculation.native_sampler import SOURCE, NativeSampler, native_sampler
from talkahead.speculation.passing import Passing
from talkahead.speculation.similarity_groups import SimilarityGroups
from talkahead.speculation.token_tree import TokenTree, TreeShape

_Step, _Outcome, _Leniency, _Labels = (
    native_struct(SOURCE, name) for name in ("step", "outcome", "leniency", "labels")
)
_Matching, _Lengthening, _Weighing, _Advancing = (
    native_struct(SOURCE, name) for name in ("matching", "lengthening", "weighing", "advancing")
)

MEMORY = "memory of walks"
"""Where a context keeps what they work in. Contexts whose steps are taken by turns may have one together."""


def _outcome(accepted: Accepted) -> NativeStruct:
    """Of contiguous tensors, which it holds."""
    outcome = _Outcome(
        most=accepted.path.shape[1],
        counts=accepted.counts.data_ptr(),
        paths=accepted.path.data_ptr(),
        next_roots=accepted.next_roots.data_ptr(),
    )
    outcome.held = accepted
    return outcome


@lru_cache(maxsize=64)
def _leniency(passing: Passing) -> NativeStruct:
    """Made once: steps ask for the same ones."""
    return _Leniency(top_k=passing.top_k, eos_top_k=passing.eos_top_k, eos=passing.eos)


def can_read(scored: Scored) -> bool:
    """Whether these walks can: where they are compiled, float32 on the CPU."""
    fits = NativeSampler.fits(scored.logits) and NativeSampler.fits(scored.hidden)
    return fits and native_sampler() is not None


def match(tree: TokenTree, scored: Scored, context: Context) -> Accepted:
    """See `Walk.match`."""
    return _run(match_call(tree, scored, context))


def longest(tree: TokenTree, scored: Scored, context: Context, passing: Passing) -> Accepted:
    """See `Walk.longest`."""
    return _run(longest_call(tree, scored, context, passing))


def ratio(
    tree: TokenTree,
    scored: Scored,
    context: Context,
    groups: SimilarityGroups | None = None,
    bias: float = 0.0,
) -> Accepted:
    """See `Walk.ratio`."""
    return _run(ratio_call(tree, scored, context, groups, bias))


def advance_rows(tree: TokenTree, scored: Scored, accepted: Accepted, context: Context) -> Tensor:
    """See `Walk.advance_rows`."""
    call = advance_call(tree, scored, accepted, context)
    call.advance.run()
    return call.added


def match_call(tree: TokenTree, scored: Scored, context: Context) -> AcceptCall:
    """`match`, see `Verifier.call`."""
    walk = _Arguments.of(tree, scored, context)

    def make() -> AcceptCall:
        call = load_library(SOURCE).call("talkahead_match", _Matching(**walk.given), walk)
        return AcceptCall(call, walk.accepted)

    return context.keep((match, tree.shape), make)


def longest_call(tree: TokenTree, scored: Scored, context: Context, passing: Passing) -> AcceptCall:
    """`longest`, see `Verifier.call`."""
    if tree.shape.is_root_alone:
        return match_call(tree, scored, context)
    walk, leniency = _Arguments.of(tree, scored, context, passing.trials), _leniency(passing)

    def make() -> AcceptCall:
        given = _Lengthening(leniency=pointer(leniency), **walk.given)
        call = load_library(SOURCE).call("talkahead_longest", given, walk, leniency)
        return AcceptCall(call, walk.accepted)

    return context.keep((longest, tree.shape, passing), make)


def ratio_call(
    tree: TokenTree,
    scored: Scored,
    context: Context,
    groups: SimilarityGroups | None = None,
    bias: float = 0.0,
) -> AcceptCall:
    """`ratio`, see `Verifier.call`."""
    if tree.shape.is_root_alone:
        return match_call(tree, scored, context)
    walk = _Arguments.of(tree, scored, context)

    def make() -> AcceptCall:
        table = _Coarse(groups, walk.vocabulary)
        labels = pointer(table.labels)
        given = _Weighing(labels=labels, draft=None, bias=bias, zeros=table.zeros, **walk.given)
        return AcceptCall(load_library(SOURCE).call("talkahead_ratio", given, walk, table), walk.accepted)

    call = context.keep((ratio, tree.shape, groups, bias), make)
    draft = tree.draft_probs
    walk.draft = None if draft is None else draft.to(torch.float32).contiguous()
    call.accept.given.draft = None if walk.draft is None else walk.draft.data_ptr()
    return call


def _run(call: AcceptCall) -> Accepted:
    call.accept.run()
    return call.accepted


@dataclass(frozen=True, eq=False)
class AdvanceCall:
    """The last part of a context's steps, and the tokens [B, M, 1] that it adds."""

    advance: NativeCall
    added: Tensor


def advance_call(tree: TokenTree, scored: Scored, accepted: Accepted, context: Context) -> AdvanceCall:
    """`advance_rows` over what lies there each time; what does not lie in order, as it is now."""
    state = ContextAddresses.of(context)
    assert state.is_state, "a step writes its rows in place"
    count, nodes, width = scored.hidden.shape
    tokens, hidden = tree.ids.contiguous(), scored.hidden.contiguous()
    outcome = _outcome(
        Accepted(accepted.path.contiguous(), accepted.counts.contiguous(), accepted.next_roots.contiguous())
    )
    most = accepted.path.shape[1]
    added = context.keep(("added", most), lambda: torch.empty(count, most, 1, dtype=torch.int64))
    given = _Advancing(
        streams=count,
        nodes=nodes,
        width=width,
        tokens=tokens.data_ptr(),
        hidden=hidden.data_ptr(),
        accepted=pointer(outcome),
        added=added.data_ptr(),
        roots=state.roots,
        positions=state.positions,
        reached=state.hidden,
    )
    advance = load_library(SOURCE).call("talkahead_advance", given, tokens, hidden, outcome, state, added)
    return AdvanceCall(advance, added)


class _Arguments:
    """The arguments of a walk over trees of one shape, and what it fills; a context keeps it.

    Attributes:
        accepted: what the walk accepted.
        given: what all of them are given in C.
        draft: what some are given besides, as long as C points at it.
    """

    def __init__(self, shape: TreeShape, vocabulary: int, context: Context, trials: int) -> None:
        count, known = len(context.positions), ContextAddresses.of(context)
        self.vocabulary = vocabulary
        self.accepted = Accepted(
            torch.empty(count, shape.max_depth + 1, dtype=torch.int64),
            torch.empty(count, dtype=torch.int64),
            torch.empty(count, 1, dtype=torch.int64),
        )
        self._step = _Step(
            streams=count,
            nodes=len(shape),
            vocabulary=vocabulary,
            logits=None,
            settings=pointer(known.settings),
            keys=known.keys,
            positions=known.positions,
            parents=shape.parent_row.data_ptr(),
            tokens=None,
            trials=trials,
            num_purposes=len(Purpose),
            token_purpose=Purpose.TOKEN,
            accept_purpose=Purpose.ACCEPT,
            residual_purpose=Purpose.RESIDUAL,
            trial_purpose=Purpose.TRIAL,
        )
        memory = context.keep(
            MEMORY, lambda: torch.empty(load_library(SOURCE).talkahead_draw_workspace(vocabulary))
        )
        self._held: tuple[object, ...] = (known, shape.parent_row, memory)
        self._read: tuple[Tensor, ...] = ()  # as long as C points at them
        self.draft: Tensor | None = None
        outcome = _outcome(self.accepted)
        self.given = {"step": pointer(self._step), "memory": memory.data_ptr(), "outcome": pointer(outcome)}
        self._held += (outcome,)

    @classmethod
    def of(cls, tree: TokenTree, scored: Scored, context: Context, trials: int = 1) -> Self:
        vocabulary = scored.logits.shape[2]
        walk = context.keep((cls, tree.shape, trials), lambda: cls(tree.shape, vocabulary, context, trials))
        walk._read = logits, tokens = scored.logits.contiguous(), tree.ids.contiguous()
        walk._step.logits, walk._step.tokens = logits.data_ptr(), tokens.data_ptr()
        return walk


class _Coarse:
    """What tokens are compared by, as C takes it; and room, which each call leaves as it finds it: all 0."""

    def __init__(self, groups: SimilarityGroups | None, vocabulary: int) -> None:
        count = vocabulary if groups is None else groups.num_groups
        runs = () if groups is None else groups.runs
        members, starts, owners, owner_starts = [one.data_ptr() for one in runs] or (None,) * 4
        zeros = torch.zeros(load_library(SOURCE).talkahead_ratio_room(vocabulary, count), dtype=torch.uint8)
        self._held = (groups, runs, zeros)
        self.labels = _Labels(
            count=count, members=members, starts=starts, owners=owners, owner_starts=owner_starts
        )
        self.zeros = zeros.data_ptr()
