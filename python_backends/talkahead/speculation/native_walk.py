"""Verifiers' walks over trees on CPUs in one C call (`native/sampler.c`), as their tensor code means them.

A walk looks at the nodes that it comes to, of a tree of 64 at three or four; tensors look at all of them.
Each function returns None where C cannot read the tensors or cannot be compiled.

Shapes: B rows, N nodes, M nodes of a path at most, V vocabulary, D hidden size.
"""

from __future__ import annotations

from ctypes import byref, pointer
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

import torch
from torch import Tensor

from talkahead.native_declarations import NativeStruct, native_struct
from talkahead.native_library import NativeCall, NativeLibrary, NativeUnavailable, load_library
from talkahead.speculation.context_addresses import ContextAddresses
from talkahead.speculation.contracts import AcceptCall, Accepted, Context, Scored
from talkahead.speculation.draws import Purpose
from talkahead.speculation.native_sampler import SOURCE, NativeSampler
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
def _leniency(**limits: int) -> NativeStruct:
    """Made once: steps ask for the same ones."""
    return _Leniency(**limits)


def match(tree: TokenTree, scored: Scored, context: Context) -> Accepted | None:
    """What `MatchVerifier` accepts."""
    library = _library(scored)
    if library is None:
        return None
    call = _Call.of(tree, scored, context)
    library.talkahead_match(call.step_at, call.room, call.outcome_at)
    return call.accepted


def match_call(tree: TokenTree, scored: Scored, context: Context) -> AcceptCall | None:
    """`match`, see `Verifier.call`."""
    library = _library(scored)
    if library is None:
        return None
    walk = _Call.of(tree, scored, context)
    given = _Matching(step=pointer(walk.step), memory=walk.room, outcome=pointer(walk.outcome))
    return AcceptCall(library.call("talkahead_match_again", given, walk), walk.accepted)


@dataclass(frozen=True, eq=False)
class AdvanceCall:
    """The last part of a context's steps, and the tokens [B, M, 1] that it adds."""

    advance: NativeCall
    added: Tensor


def advance_call(tree: TokenTree, scored: Scored, accepted: Accepted, context: Context) -> AdvanceCall | None:
    """`advance_rows` over what lies there each time."""
    library, state = _library(scored), ContextAddresses.of(context)
    if library is None or not state.is_state:
        return None
    count, nodes, width = scored.hidden.shape
    added = torch.empty(count, accepted.path.shape[1], 1, dtype=torch.int64)
    outcome = _outcome(accepted)
    given = _Advancing(
        streams=count,
        nodes=nodes,
        width=width,
        tokens=tree.ids.data_ptr(),
        hidden=scored.hidden.data_ptr(),
        accepted=pointer(outcome),
        added=added.data_ptr(),
        roots=state.roots,
        positions=state.positions,
        reached=state.hidden,
    )
    advance = library.call("talkahead_advance_again", given, tree, scored, outcome, state, added)
    return AdvanceCall(advance, added)


def longest(
    tree: TokenTree,
    scored: Scored,
    context: Context,
    *,
    trials: int,
    top_k: int,
    eos_top_k: int,
    eos: int,
) -> Accepted | None:
    """What `accept_longest` accepts of nodes among the draws, or, if `top_k` is not 0, among the best tokens.

    Args:
        trials: draws at each node.
    """
    library = _library(scored)
    if library is None:
        return None
    call = _Call.of(tree, scored, context, trials)
    leniency = _leniency(top_k=top_k, eos_top_k=eos_top_k, eos=eos)
    library.talkahead_longest(call.step_at, byref(leniency), call.room, call.outcome_at)
    return call.accepted


def longest_call(
    tree: TokenTree,
    scored: Scored,
    context: Context,
    *,
    trials: int,
    top_k: int,
    eos_top_k: int,
    eos: int,
) -> AcceptCall | None:
    """`longest`, see `Verifier.call`."""
    library = _library(scored)
    if library is None:
        return None
    walk = _Call.of(tree, scored, context, trials)
    leniency = _leniency(top_k=top_k, eos_top_k=eos_top_k, eos=eos)
    given = _Lengthening(
        step=pointer(walk.step),
        leniency=pointer(leniency),
        memory=walk.room,
        outcome=pointer(walk.outcome),
    )
    return AcceptCall(library.call("talkahead_longest_again", given, walk, leniency), walk.accepted)


def ratio(
    tree: TokenTree, scored: Scored, context: Context, groups: SimilarityGroups | None, bias: float
) -> Accepted | None:
    """What `rejection_walk.walk` accepts: by groups, or by token where there are none."""
    library, draft = _library(scored), tree.draft_probs
    if library is None or (draft is not None and not NativeSampler.fits(draft)):
        return None
    call = _Call.of(tree, scored, context)
    table = context.keep((_Coarse, groups), lambda: _Coarse(groups, call.vocabulary))
    draft = None if draft is None else draft.contiguous()
    library.talkahead_ratio(
        *(call.step_at, table.labels_at, None if draft is None else draft.data_ptr(), bias),
        *(table.zeros, call.room, call.outcome_at),
    )
    return call.accepted


def ratio_call(
    tree: TokenTree, scored: Scored, context: Context, groups: SimilarityGroups | None, bias: float
) -> AcceptCall | None:
    """`ratio`, see `Verifier.call`."""
    library, draft = _library(scored), tree.draft_probs
    if library is None or (draft is not None and not NativeSampler.fits(draft)):
        return None
    walk = _Call.of(tree, scored, context)
    table = _Coarse(groups, walk.vocabulary)
    given = _Weighing(
        step=pointer(walk.step),
        labels=pointer(table.labels),
        draft=None if draft is None else draft.data_ptr(),
        bias=bias,
        zeros=table.zeros,
        memory=walk.room,
        outcome=pointer(walk.outcome),
    )
    return AcceptCall(library.call("talkahead_ratio_again", given, walk, table, draft), walk.accepted)


def advance_rows(tree: TokenTree, scored: Scored, accepted: Accepted, context: Context) -> Tensor | None:
    """What `next_roots.advance_rows` does and returns."""
    library, state = _library(scored), ContextAddresses.of(context)
    if library is None or not NativeSampler.fits(scored.hidden) or not state.is_state:
        return None
    count, nodes, width = scored.hidden.shape
    tokens, hidden = tree.ids.contiguous(), scored.hidden.contiguous()
    outcome = _outcome(
        Accepted(accepted.path.contiguous(), accepted.counts.contiguous(), accepted.next_roots.contiguous())
    )
    most = accepted.path.shape[1]
    added = context.keep(("added", most), lambda: torch.empty(count, most, 1, dtype=torch.int64))
    library.talkahead_advance(
        *(count, nodes, width, tokens.data_ptr(), hidden.data_ptr(), byref(outcome)),
        *(added.data_ptr(), state.roots, state.positions, state.hidden),
    )
    return added


class _Call:
    """The arguments of a walk over trees of one shape, and what it fills; a context keeps it.

    Attributes:
        accepted: what the walk accepted.
        step, outcome: as C takes them, and `step_at`, `outcome_at` by reference.
        room: where it works.
    """

    def __init__(self, shape: TreeShape, vocabulary: int, context: Context, trials: int) -> None:
        count, known = len(context.positions), ContextAddresses.of(context)
        self.vocabulary = vocabulary
        self.accepted = Accepted(
            torch.empty(count, shape.max_depth + 1, dtype=torch.int64),
            torch.empty(count, dtype=torch.int64),
            torch.empty(count, 1, dtype=torch.int64),
        )
        self.step = _Step(
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
        self._held = (known, shape.parent_row, memory)
        self._read: tuple[Tensor, ...] = ()  # as long as C points at them
        self.outcome = _outcome(self.accepted)
        self.step_at, self.outcome_at = byref(self.step), byref(self.outcome)
        self.room = memory.data_ptr()

    @classmethod
    def of(cls, tree: TokenTree, scored: Scored, context: Context, trials: int = 1) -> Self:
        vocabulary = scored.logits.shape[2]
        call = context.keep((cls, tree.shape, trials), lambda: cls(tree.shape, vocabulary, context, trials))
        call._read = logits, tokens = scored.logits.contiguous(), tree.ids.contiguous()
        call.step.logits, call.step.tokens = logits.data_ptr(), tokens.data_ptr()
        return call


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
        self.labels_at = byref(self.labels)
        self.zeros = zeros.data_ptr()


def _library(scored: Scored) -> NativeLibrary | None:
    return _found() if NativeSampler.fits(scored.logits) else None


@lru_cache(maxsize=1)
def _found() -> NativeLibrary | None:
    """The library, or None where it cannot be compiled."""
    try:
        return load_library(SOURCE)
    except NativeUnavailable:
        return None
