"""Verifiers' walks over trees on CPUs in one C call (`native/sampler.c`), as their tensor code means them.

A walk looks at the nodes that it comes to, of a tree of 64 at three or four; tensors look at all of them.
Each function returns None where C cannot read the tensors or cannot be compiled.

Shapes: B rows, N nodes, T trials, V vocabulary, M groups, E memberships.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, Structure, byref, c_double, c_int64, c_void_p
from functools import lru_cache

import torch
from torch import Tensor

from talkahead.native_library import NativeUnavailable, load_library
from talkahead.speculation.contracts import Accepted, Context, Scored
from talkahead.speculation.draws import Purpose
from talkahead.speculation.native_sampler import SOURCE, NativeSampler, SettingsColumns
from talkahead.speculation.similarity_groups import SimilarityGroups
from talkahead.speculation.token_tree import TokenTree, TreeShape

_LANES = 16


class _Step(Structure):
    _fields_ = (
        *((name, c_int64) for name in ("streams", "nodes", "vocabulary")),
        ("logits", c_void_p),
        ("settings", POINTER(SettingsColumns)),
        *((name, c_void_p) for name in ("keys", "positions", "parents", "tokens")),
        *((name, c_int64) for name in ("trials", "num_purposes")),
        *((name, c_int64) for name in ("token_purpose", "accept_purpose", "residual_purpose")),
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
    call = _Call(tree, scored, context, context.keys[:, None])
    library.talkahead_match(byref(call.step), *call.outputs(call.vocabulary))
    return call.accepted(tree.shape)


def longest(
    tree: TokenTree,
    scored: Scored,
    context: Context,
    streams: Tensor,
    *,
    top_k: int,
    eos_top_k: int,
    eos: int,
) -> Accepted | None:
    """What `accept_longest` accepts of nodes among the draws, or, if `top_k` is not 0, among the best tokens.

    Args:
        streams: int64 [B, T], the keys of the draws at each node.
    """
    library = _library(scored)
    if library is None:
        return None
    call = _Call(tree, scored, context, streams)
    leniency = _Leniency(top_k, eos_top_k, eos)
    library.talkahead_longest(byref(call.step), byref(leniency), *call.outputs(call.vocabulary))
    return call.accepted(tree.shape)


def ratio(
    tree: TokenTree, scored: Scored, context: Context, groups: SimilarityGroups | None, bias: float
) -> Accepted | None:
    """What `rejection_walk.walk` accepts: by groups, or by token where there are none."""
    library = _library(scored)
    if library is None or (tree.draft_probs is not None and not NativeSampler.fits(tree.draft_probs)):
        return None
    call = _Call(tree, scored, context, context.keys[:, None])
    count = call.vocabulary if groups is None else groups.num_groups
    runs = () if groups is None else call.hold(*groups.runs)
    room = torch.empty(2 * call.vocabulary + count)
    weights, *results = call.outputs(max(count, call.vocabulary))
    library.talkahead_ratio(
        *(byref(call.step), byref(_Labels(count, *runs))),
        None if tree.draft_probs is None else call.hold(tree.draft_probs)[0],
        *(bias, weights, room.data_ptr(), *results),
    )
    return call.accepted(tree.shape)


class _Call:
    """The arguments of one call, and the tensors behind their addresses, which live as long as it does."""

    def __init__(self, tree: TokenTree, scored: Scored, context: Context, streams: Tensor) -> None:
        self._held: list[Tensor] = []
        count, nodes, self.vocabulary = scored.logits.shape
        self._settings = SettingsColumns(*self.hold(*context.settings.columns))
        logits, *others = self.hold(
            scored.logits, streams, context.positions, tree.shape.parent_row, tree.tokens
        )
        self.step = _Step(
            *(count, nodes, self.vocabulary, logits, ctypes.pointer(self._settings), *others),
            *(streams.shape[1], len(Purpose), Purpose.TOKEN, Purpose.ACCEPT, Purpose.RESIDUAL),
        )
        self._last = torch.empty(count, dtype=torch.int64)
        self._next_roots = torch.empty((count, 1), dtype=torch.int64)

    def hold(self, *tensors: Tensor) -> list[int]:
        """Addresses of the tensors, made contiguous."""
        contiguous = [tensor.contiguous() for tensor in tensors]
        self._held += contiguous
        return [tensor.data_ptr() for tensor in contiguous]

    def outputs(self, width: int) -> list[int]:
        """Addresses of room for `width` weights, and of the results."""
        return self.hold(torch.empty(width + _LANES), self._last, self._next_roots)

    def accepted(self, shape: TreeShape) -> Accepted:
        paths = shape.paths[self._last].clamp_min_(0)
        return Accepted(paths, shape.depth_row[self._last] + 1, self._next_roots)


def _library(scored: Scored) -> ctypes.CDLL | None:
    return _bound() if NativeSampler.fits(scored.logits) else None


@lru_cache(maxsize=1)
def _bound() -> ctypes.CDLL | None:
    """The library with the signatures told, or None where it cannot be compiled."""
    try:
        library = load_library(SOURCE)
    except NativeUnavailable:
        return None
    results = (c_void_p, c_void_p, c_void_p)
    library.talkahead_match.argtypes = [POINTER(_Step), *results]
    library.talkahead_longest.argtypes = [POINTER(_Step), POINTER(_Leniency), *results]
    library.talkahead_ratio.argtypes = [
        *(POINTER(_Step), POINTER(_Labels), c_void_p, c_double, c_void_p),
        *results,
    ]
    for function in (library.talkahead_match, library.talkahead_longest, library.talkahead_ratio):
        function.restype = None
    return library
