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
from talkahead.speculation.token_tree import TokenTree



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
        return cls(
            path.shape[1], accepted.counts.data_ptr(), path.data_ptr(), accepted.next_roots.data_ptr()
        )


class _Leniency(Structure):
    _fields_ = tuple((name, c_int64) for name in ("top_k", "eos_top_k", "eos"))


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
    call = _Call(tree, scored, context)
    library.talkahead_match(byref(call.step), *call.outputs())
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
    call = _Call(tree, scored, context, trials)
    leniency = _Leniency(top_k, eos_top_k, eos)
    library.talkahead_longest(byref(call.step), byref(leniency), *call.outputs())
    return call.accepted


def ratio(
    tree: TokenTree, scored: Scored, context: Context, groups: SimilarityGroups | None, bias: float
) -> Accepted | None:
    """What `rejection_walk.walk` accepts: by groups, or by token where there are none."""
    library = _library(scored)
    if library is None or (tree.draft_probs is not None and not NativeSampler.fits(tree.draft_probs)):
        return None
    call = _Call(tree, scored, context)
    count = call.vocabulary if groups is None else groups.num_groups
    runs = () if groups is None else call.hold(*groups.runs)
    zeros = torch.zeros(library.talkahead_ratio_room(call.vocabulary, count), dtype=torch.uint8)
    memory, outcome = call.outputs()
    library.talkahead_ratio(
        *(byref(call.step), byref(_Labels(count, *runs))),
        None if tree.draft_probs is None else call.hold(tree.draft_probs)[0],
        *(bias, zeros.data_ptr(), memory, outcome),
    )
    return call.accepted


def advance(tree: TokenTree, scored: Scored, accepted: Accepted, context: Context) -> Tensor | None:
    """What `after_path.advance` does and returns."""
    library, state = _library(scored), ContextAddresses.of(context)
    if library is None or not NativeSampler.fits(scored.hidden) or not state.is_state:
        return None
    count, nodes, width = scored.hidden.shape
    tokens, hidden = tree.tokens.contiguous(), scored.hidden.contiguous()
    held = Accepted(accepted.path.contiguous(), accepted.counts.contiguous(), accepted.next_roots.contiguous())
    added = torch.empty(held.path.shape, dtype=torch.int64)
    library.talkahead_advance(
        *(count, nodes, width, tokens.data_ptr(), hidden.data_ptr(), byref(_Outcome.at(held))),
        *(added.data_ptr(), state.roots, state.positions, state.hidden),
    )
    return added


class _Call:
    """The arguments of one call, and the tensors behind their addresses, which live as long as it does."""

    def __init__(self, tree: TokenTree, scored: Scored, context: Context, trials: int = 1) -> None:
        self._held: list[Tensor] = []
        count, nodes, self.vocabulary = scored.logits.shape
        self._context = known = ContextAddresses.of(context)
        logits, parents, tokens = self.hold(scored.logits, tree.shape.parent_row, tree.tokens)
        self.step = _Step(
            *(count, nodes, self.vocabulary, logits, ctypes.pointer(known.settings)),
            *(known.keys, known.positions, parents, tokens, trials, *_PURPOSES),
        )
        self.accepted = Accepted(
            torch.empty(count, tree.shape.max_depth + 1, dtype=torch.int64),
            torch.empty(count, dtype=torch.int64),
            torch.empty(count, 1, dtype=torch.int64),
        )

    def hold(self, *tensors: Tensor) -> list[int]:
        """Addresses of the tensors, made contiguous."""
        contiguous = [tensor.contiguous() for tensor in tensors]
        self._held += contiguous
        return [tensor.data_ptr() for tensor in contiguous]

    def outputs(self) -> tuple[int, object]:
        """Room for a row, and where the results go: `accepted`."""
        room = torch.empty(_bound().talkahead_draw_workspace(self.vocabulary))
        return self.hold(room)[0], byref(_Outcome.at(self.accepted))


def _library(scored: Scored) -> ctypes.CDLL | None:
    return _bound() if NativeSampler.fits(scored.logits) else None


@lru_cache(maxsize=1)
def _bound() -> ctypes.CDLL | None:
    """The library with the signatures told, or None where it cannot be compiled."""
    try:
        library = load_library(SOURCE)
    except NativeUnavailable:
        return None
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
