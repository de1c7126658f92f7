"""Draws on CPUs in one C call (`native/sampler.c`), with the meaning of `sampling`.

Shapes: S streams, N nodes each, T draws of each node, V vocabulary.
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


class SettingsColumns(Structure):
    """`SamplingSettings` as C reads them: the addresses of their columns."""

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
        return logits.dtype is torch.float32 and logits.is_cpu

    def draw(
        self,
        logits: Tensor,
        settings: tuple[Tensor, ...],
        streams: Tensor,
        positions: Tensor,
        log_norms: Tensor | None = None,
    ) -> Tensor:
        """int64 [S, N, T]; the arguments of `sampling.draw_several`, with the columns of its settings.

        `log_norms`, float64 [S, N], is filled where it is given.
        """
        count, nodes, vocabulary = logits.shape
        trials = int(streams.shape[1])
        held = [tensor.contiguous() for tensor in (logits, *settings, streams, positions)]
        addresses = [tensor.data_ptr() for tensor in held]
        weights = self.workspace(vocabulary)
        tokens = torch.empty((count, nodes, trials), dtype=torch.int64)
        self._library.talkahead_draw(
            *(count, nodes, trials, vocabulary, addresses[0]),
            byref(SettingsColumns(*addresses[1:5])),
            *(addresses[5], addresses[6], int(Purpose.TOKEN), len(Purpose)),
            weights.data_ptr(),
            tokens.data_ptr(),
            None if log_norms is None else log_norms.data_ptr(),
        )
        return tokens

    def probabilities(self, logits: Tensor, settings: tuple[Tensor, ...]) -> Tensor:
        """float32 [S, N, V]; the arguments of `sampling.probabilities`, with the columns of its settings."""
        held = [tensor.contiguous() for tensor in (logits, *settings)]
        addresses = [tensor.data_ptr() for tensor in held]
        weights = self.workspace(int(logits.shape[2]))
        probabilities = torch.empty(logits.shape)
        self._library.talkahead_probabilities(
            *(*logits.shape, addresses[0]),
            byref(SettingsColumns(*addresses[1:5])),
            weights.data_ptr(),
            probabilities.data_ptr(),
        )
        return probabilities

    @property
    def draw_address(self) -> int | None:
        """Of `talkahead_draw`, for native callers."""
        return ctypes.cast(self._library.talkahead_draw, c_void_p).value

    @property
    def draw_with_probs_address(self) -> int | None:
        """Of `talkahead_draw_with_probs`."""
        return ctypes.cast(self._library.talkahead_draw_with_probs, c_void_p).value

    @property
    def order_address(self) -> int | None:
        """Of `talkahead_order_draws`."""
        return ctypes.cast(self._library.talkahead_order_draws, c_void_p).value

    def workspace(self, vocabulary: int) -> Tensor:
        """Room that draws of one row need."""
        return torch.empty(self._library.talkahead_draw_workspace(vocabulary))


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
        *(c_int64, c_int64, c_int64, c_int64, c_void_p, POINTER(SettingsColumns), c_void_p, c_void_p),
        *(c_int64, c_int64, c_void_p, c_void_p, c_void_p),
    ]
    library.talkahead_draw.restype = None
    library.talkahead_probabilities.argtypes = [
        *(c_int64, c_int64, c_int64, c_void_p, POINTER(SettingsColumns), c_void_p, c_void_p)
    ]
    library.talkahead_probabilities.restype = None
    return library
