"""Draws on CPUs in one C call (`native/sampler.c`), with the meaning of `sampling`.

Shapes: S streams, N nodes each, V vocabulary.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, Structure, byref, c_int64, c_void_p
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor

from talkahead.native_library import NativeUnavailable, load_library
from talkahead.speculation.draws import Purpose

SOURCE = Path(__file__).parent / "native" / "sampler.c"


class _Settings(Structure):
    _fields_ = (
        ("sharpness", c_void_p),
        ("is_sampled", c_void_p),
        ("top_k", c_void_p),
        ("top_p", c_void_p),
    )


class NativeSampler:
    """Draws tokens; a row's token depends on nothing but the row."""

    def __init__(self) -> None:
        self._library = _bound(load_library(SOURCE))

    @staticmethod
    def fits(logits: Tensor) -> bool:
        return logits.dtype is torch.float32 and logits.device.type == "cpu"

    def draw(
        self, logits: Tensor, settings: tuple[Tensor, ...], streams: Tensor, positions: Tensor
    ) -> Tensor:
        """int64 [S, N]; the arguments of `sampling.draw`, with the columns of its settings."""
        count, nodes, vocabulary = logits.shape
        held = [tensor.contiguous() for tensor in (logits, *settings, streams, positions)]
        addresses = [tensor.data_ptr() for tensor in held]
        weights = torch.empty(self._library.talkahead_draw_workspace(vocabulary))
        tokens = torch.empty((count, nodes), dtype=torch.int64)
        self._library.talkahead_draw(
            count,
            nodes,
            vocabulary,
            addresses[0],
            byref(_Settings(*addresses[1:5])),
            addresses[5],
            addresses[6],
            int(Purpose.TOKEN),
            len(Purpose),
            weights.data_ptr(),
            tokens.data_ptr(),
        )
        return tokens


@lru_cache(maxsize=1)
def native_sampler() -> NativeSampler | None:
    """The sampler, or None where it cannot be compiled."""
    try:
        return NativeSampler()
    except NativeUnavailable:
        return None


def _bound(library: ctypes.CDLL) -> ctypes.CDLL:
    """Tells ctypes the signatures."""
    library.talkahead_draw_workspace.argtypes = [c_int64]
    library.talkahead_draw_workspace.restype = c_int64
    library.talkahead_draw.argtypes = [
        *(c_int64, c_int64, c_int64, c_void_p, POINTER(_Settings), c_void_p, c_void_p),
        *(c_int64, c_int64, c_void_p, c_void_p),
    ]
    library.talkahead_draw.restype = None
    return library
