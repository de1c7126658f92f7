"""Verifiers' walks over trees on CPUs in one C call (`native/sampler.c`), as their tensor code means them.

A walk looks at the nodes that it comes to, of a tree of 64 at three or four; tensors look at all of them.
Each function returns None where C cannot read the tensors or cannot be compiled.

Shapes: B rows, N nodes, M nodes of a path at most, V vocabulary, D hidden size.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, Structure, byref, c_double, c_int64, c_void_p
from functools import lru_cache
from typing import Self

import torch
from torch import Tensor

from talkahead.native_library import NativeUnavailable, load_library
from talkahead.speculation.context_addresses import ContextAddresses
from talkahead.speculation.contracts import Accepted, Context, Scored
from talkahead.speculation.draws import Purpose
from talkahead.speculation.native_sampler import SOURCE, NativeSampler, SettingsColumns
from talkahead.speculation.similarity_groups import SimilarityGroups
from talkahead.speculation.token_tree import TokenTree, TreeShape

_PURPOSES = (len(Purpose), *map(int, (Purpose.TOKEN, Purpose.ACCEPT, Purpose.RESIDUAL, Purpose.TRIAL)))
"""How many there are, and those of walks."""


class _Step(Structure):
    _fields_ = (
        *((name, c_int64) for name in ("streams", "nodes", "vocabulary")),
        ("logits", c_void_p),
        ("settings", POINTER(SettingsColumns)),
        *((name, c_void_p) for name in ("keys", "positions", "parents", "tokens")),
        *((name, c_int64) for name in ("trials", "num_purposes")),
        *((name, c_int64) for name in ("token_purpose", "accept_purpose", "residual_purpose")),
        ("trial_purpose", c_int64),
    )


class _Outcome(Structure):
    _fields_ = (("most", c_int64), *((name, c_void_p) for name in ("counts", "paths", "next_roots")))

    @classmethod
    def at(cls, accepted: Accepted) -> Self:
        path = accepted.path
        return cls(path.shape[1], accepted.counts.data_ptr(), path.data_ptr(), accepted.next_roots.data_ptr())


class _Leniency(Structure):
    _fields_ = tuple((name, c_int64) for name in ("top_k", "eos_top_k", "eos"))


@lru_cache(maxsize=64)
def _leniency(top_k: int, eos_top_k: int, eos: int) -> _Leniency:
    """Made once: steps ask for the same ones."""
    return _Leniency(top_k, eos_top_k, eos)


class _Labels(Structure):
    _fields_ = (
        ("count", c_int64),
        *((name, c_void_p) for name in ("members", "starts", "owners", "owner_starts")),
    )


def match(tree: TokenTree, scored: Scored, context: Context) -> Accepted | None:
    """What `MatchVerifier` accepts."""
    library = _library(scored)
    if library is None:
        return None
    call = _Call.of(tree, scored, context)
    library.talkahead_match(call.step_at, call.room, call.outcome_at)
    return call.accepted


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
    leniency = _leniency(top_k, eos_top_k, eos)
    library.talkahead_longest(call.step_at, byref(leniency), call.room, call.outcome_at)
    return call.accepted


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


def advance_rows(tree: TokenTree, scored: Scored, accepted: Accepted, context: Context) -> Tensor | None:
    """What `next_roots.advance_rows` does and returns."""
    library, state = _library(scored), ContextAddresses.of(context)
    if library is None or not NativeSampler.fits(scored.hidden) or not state.is_state:
        return None
    count, nodes, width = scored.hidden.shape
    tokens, hidden = tree.ids.contiguous(), scored.hidden.contiguous()
    path, counts, roots = (
        accepted.path.contiguous(),
        accepted.counts.contiguous(),
        accepted.next_roots.contiguous(),
    )
    most = path.shape[1]
    added = context.keep(("added", most), lambda: torch.empty(count, most, 1, dtype=torch.int64))
    outcome = _Outcome(most, counts.data_ptr(), path.data_ptr(), roots.data_ptr())
    library.talkahead_advance(
        *(count, nodes, width, tokens.data_ptr(), hidden.data_ptr(), byref(outcome)),
        *(added.data_ptr(), state.roots, state.positions, state.hidden),
    )
    return added


class _Call:
    """The arguments of a walk over trees of one shape, and what it fills; a context keeps it.

    Attributes:
        accepted: what the walk accepted.
        step_at, outcome_at, room: as C takes them.
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
            *(count, len(shape), vocabulary, None, ctypes.pointer(known.settings)),
            *(known.keys, known.positions, shape.parent_row.data_ptr(), None, trials, *_PURPOSES),
        )
        memory = torch.empty(_bound().talkahead_draw_workspace(vocabulary))
        self._held = (known, shape.parent_row, memory)
        self._read: tuple[Tensor, ...] = ()  # as long as C points at them
        self.step_at, self.room = byref(self._step), memory.data_ptr()
        self.outcome_at = byref(_Outcome.at(self.accepted))

    @classmethod
    def of(cls, tree: TokenTree, scored: Scored, context: Context, trials: int = 1) -> Self:
        vocabulary = scored.logits.shape[2]
        call = context.keep((cls, tree.shape, trials), lambda: cls(tree.shape, vocabulary, context, trials))
        call._read = logits, tokens = scored.logits.contiguous(), tree.ids.contiguous()
        call._step.logits, call._step.tokens = logits.data_ptr(), tokens.data_ptr()
        return call


class _Coarse:
    """What tokens are compared by, as C takes it; and room, which each call leaves as it finds it: all 0."""

    def __init__(self, groups: SimilarityGroups | None, vocabulary: int) -> None:
        count = vocabulary if groups is None else groups.num_groups
        runs = () if groups is None else groups.runs
        zeros = torch.zeros(_bound().talkahead_ratio_room(vocabulary, count), dtype=torch.uint8)
        self._held = (groups, runs, zeros)
        self.labels_at = byref(_Labels(count, *(one.data_ptr() for one in runs)))
        self.zeros = zeros.data_ptr()


def _library(scored: Scored) -> ctypes.CDLL | None:
    return _found() if NativeSampler.fits(scored.logits) else None


@lru_cache(maxsize=1)
def _found() -> ctypes.CDLL | None:
    """The library, or None where it cannot be compiled."""
    try:
        return _bound()
    except NativeUnavailable:
        return None


@lru_cache(maxsize=1)
def _bound() -> ctypes.CDLL:
    """The library, with the signatures told; raises NativeUnavailable."""
    library = load_library(SOURCE)
    results = (c_void_p, POINTER(_Outcome))
    library.talkahead_match.argtypes = [POINTER(_Step), *results]
    library.talkahead_longest.argtypes = [POINTER(_Step), POINTER(_Leniency), *results]
    library.talkahead_ratio.argtypes = [
        *(POINTER(_Step), POINTER(_Labels), c_void_p, c_double, c_void_p),
        *results,
    ]
    library.talkahead_ratio_room.argtypes = [c_int64, c_int64]
    library.talkahead_ratio_room.restype = c_int64
    library.talkahead_advance.argtypes = [
        *(c_int64, c_int64, c_int64, c_void_p, c_void_p, POINTER(_Outcome), *(c_void_p,) * 4)
    ]
    walks = (library.talkahead_match, library.talkahead_longest, library.talkahead_ratio)
    for function in (*walks, library.talkahead_advance):
        function.restype = None
    return library
