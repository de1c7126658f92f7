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
from talkahead.speculation.contracts import Accepted, Context, Scored
from talkahead.speculation.draws import Purpose
from talkahead.speculation.native_sampler import SOURCE, NativeSampler, SettingsColumns
from talkahead.speculation.similarity_groups import SimilarityGroups
from talkahead.speculation.token_tree import TokenTree



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
        tensors = (accepted.counts, accepted.path, accepted.next_roots)
        return cls(accepted.path.shape[1], *(tensor.data_ptr() for tensor in tensors))


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


def advance(tree: TokenTree, scored: Scored, accepted: Accepted) -> tuple[Tensor, Tensor] | None:
    """What `after_path` finds of trees of more than the root."""
    library = _library(scored)
    if library is None or not NativeSampler.fits(scored.hidden):
        return None
    count, nodes, width = scored.hidden.shape
    tokens, hidden = tree.tokens.contiguous(), scored.hidden.contiguous()
    held = Accepted(*(one.contiguous() for one in (accepted.path, accepted.counts, accepted.next_roots)))
    added, reached = torch.empty_like(held.path), torch.empty(count, width)
    library.talkahead_advance(
        *(count, nodes, width, tokens.data_ptr(), hidden.data_ptr(), byref(_Outcome.at(held))),
        *(added.data_ptr(), reached.data_ptr()),
    )
    return added, reached


class _Call:
    """The arguments of one call, and the tensors behind their addresses, which live as long as it does."""

    def __init__(self, tree: TokenTree, scored: Scored, context: Context, trials: int = 1) -> None:
        self._held: list[Tensor] = []
        count, nodes, self.vocabulary = scored.logits.shape
        self._settings = SettingsColumns(*self.hold(*context.settings.columns))
        logits, *others = self.hold(
            scored.logits, context.keys, context.positions, tree.shape.parent_row, tree.tokens
        )
        self.step = _Step(
            *(count, nodes, self.vocabulary, logits, ctypes.pointer(self._settings), *others),
            *(trials, len(Purpose), Purpose.TOKEN, Purpose.ACCEPT, Purpose.RESIDUAL, Purpose.TRIAL),
        )
        sizes = ((count, tree.shape.paths.shape[1]), (count,), (count, 1))
        self.accepted = Accepted(*(torch.empty(size, dtype=torch.int64) for size in sizes))

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
        *(c_int64, c_int64, c_int64, c_void_p, c_void_p, POINTER(_Outcome), c_void_p, c_void_p)
    ]
    walks = (library.talkahead_match, library.talkahead_longest, library.talkahead_ratio)
    for function in (*walks, library.talkahead_advance):
        function.restype = None
    return library
