"""Verifiers' walks over trees on CPUs in one C call (`native/sampler.c`), as their tensor code means them.

A walk looks at the nodes that it comes to, of a tree of 64 at three or four; tensors look at all of them.
Each function returns None where C cannot read the tensors or cannot be compiled.

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
    return _run(match_call(tree, scored, context))


def match_call(tree: TokenTree, scored: Scored, context: Context) -> AcceptCall | None:
    """`match`, see `Verifier.call`."""
    library = _library(scored)
    if library is None:
        return None
    walk = _Walk.of(tree, scored, context)

    def make() -> AcceptCall:
        call = library.call("talkahead_match", _Matching(**walk.given), walk)
        return AcceptCall(call, walk.accepted)

    return context.keep((match, tree.shape), make)


def longest(
    tree: TokenTree, scored: Scored, context: Context, *, trials: int, **limits: int
) -> Accepted | None:
    """What `accept_longest` accepts of nodes among the draws, or, if `top_k` is not 0, among the best tokens.

    Args:
        trials: draws at each node.
        limits: top_k, eos_top_k and eos.
    """
    return _run(longest_call(tree, scored, context, trials=trials, **limits))


def longest_call(
    tree: TokenTree, scored: Scored, context: Context, *, trials: int, **limits: int
) -> AcceptCall | None:
    """`longest`, see `Verifier.call`; of roots alone it is `match`."""
    if tree.shape.is_root_alone:
        return match_call(tree, scored, context)
    library = _library(scored)
    if library is None:
        return None
    walk, leniency = _Walk.of(tree, scored, context, trials), _leniency(**limits)

    def make() -> AcceptCall:
        given = _Lengthening(leniency=pointer(leniency), **walk.given)
        return AcceptCall(library.call("talkahead_longest", given, walk, leniency), walk.accepted)

    return context.keep((longest, tree.shape, trials, *sorted(limits.items())), make)


def ratio(
    tree: TokenTree, scored: Scored, context: Context, groups: SimilarityGroups | None, bias: float
) -> Accepted | None:
    """What `rejection_walk.walk` accepts: by groups, or by token where there are none."""
    return _run(ratio_call(tree, scored, context, groups, bias))


def ratio_call(
    tree: TokenTree, scored: Scored, context: Context, groups: SimilarityGroups | None, bias: float
) -> AcceptCall | None:
    """`ratio`, see `Verifier.call`; of roots alone it is `match`."""
    if tree.shape.is_root_alone:
        return match_call(tree, scored, context)
    library, draft = _library(scored), tree.draft_probs
    if library is None or (draft is not None and not NativeSampler.fits(draft)):
        return None
    walk = _Walk.of(tree, scored, context)

    def make() -> AcceptCall:
        table = _Coarse(groups, walk.vocabulary)
        labels = pointer(table.labels)
        given = _Weighing(labels=labels, draft=None, bias=bias, zeros=table.zeros, **walk.given)
        return AcceptCall(library.call("talkahead_ratio", given, walk, table), walk.accepted)

    call = context.keep((ratio, tree.shape, groups, bias), make)
    walk.draft = None if draft is None else draft.contiguous()
    call.accept.given.draft = None if walk.draft is None else walk.draft.data_ptr()
    return call


def _run(call: AcceptCall | None) -> Accepted | None:
    if call is None:
        return None
    call.accept.run()
    return call.accepted


def advance_rows(tree: TokenTree, scored: Scored, accepted: Accepted, context: Context) -> Tensor | None:
    """What `next_roots.advance_rows` does and returns."""
    call = advance_call(tree, scored, accepted, context)
    if call is None:
        return None
    call.advance.run()
    return call.added


@dataclass(frozen=True, eq=False)
class AdvanceCall:
    """The last part of a context's steps, and the tokens [B, M, 1] that it adds."""

    advance: NativeCall
    added: Tensor


def advance_call(tree: TokenTree, scored: Scored, accepted: Accepted, context: Context) -> AdvanceCall | None:
    """`advance_rows` over what lies there each time; what does not lie in order, as it is now."""
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
    advance = library.call("talkahead_advance", given, tokens, hidden, outcome, state, added)
    return AdvanceCall(advance, added)


class _Walk:
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


def _library(scored: Scored) -> NativeLibrary | None:
    return _found() if NativeSampler.fits(scored.logits) else None


@lru_cache(maxsize=1)
def _found() -> NativeLibrary | None:
    """The library, or None where it cannot be compiled."""
    try:
        return load_library(SOURCE)
    except NativeUnavailable:
        return None
