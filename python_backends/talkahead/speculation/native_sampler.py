"""Draws on CPUs in one C call (`native/sampler.c`), with the meaning of `sampling`.

Shapes: S streams, N nodes each, T draws of each node, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping
from ctypes import byref
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor

from talkahead.native_declarations import NativeStruct, native_struct
from talkahead.native_library import NativeUnavailable, load_library
from talkahead.speculation.draws import Purpose

SOURCE = Path(__file__).parent / "native" / "sampler.c"
_Settings = native_struct(SOURCE, "settings")


def settings_columns(settings: Mapping[str, Tensor]) -> NativeStruct:
    """Where the columns of `SamplingSettings` lie, by name; it holds them."""
    held = {name: column.contiguous() for name, column in settings.items()}
    columns = _Settings(**{name: column.data_ptr() for name, column in held.items()})
    columns.held = held
    return columns


class NativeSampler:
    """Draws tokens; a row's token depends on nothing but the row."""

    def __init__(self) -> None:
        self._library = load_library(SOURCE)

    @staticmethod
    def fits(logits: Tensor) -> bool:
        return logits.dtype is torch.float32 and logits.is_cpu

    def draw(
        self,
        logits: Tensor,
        settings: Mapping[str, Tensor],
        streams: Tensor,
        positions: Tensor,
        log_norms: Tensor | None = None,
    ) -> Tensor:
        """int64 [S, N, T]; the arguments of `sampling.draw_several`, with its settings' columns by name.

        `log_norms`, float64 [S, N], is filled where it is given.
        """
        count, nodes, vocabulary = logits.shape
        trials = int(streams.shape[1])
        held = [tensor.contiguous() for tensor in (logits, streams, positions)]
        addresses = [tensor.data_ptr() for tensor in held]
        weights = self.workspace(vocabulary)
        tokens = torch.empty((count, nodes, trials), dtype=torch.int64)
        self._library.talkahead_draw(
            *(count, nodes, trials, vocabulary, addresses[0]),
            byref(settings_columns(settings)),
            *(addresses[1], addresses[2], int(Purpose.TOKEN), len(Purpose)),
            weights.data_ptr(),
            tokens.data_ptr(),
            None if log_norms is None else log_norms.data_ptr(),
        )
        return tokens

    def probabilities(self, logits: Tensor, settings: Mapping[str, Tensor]) -> Tensor:
        """float32 [S, N, V]; the arguments of `sampling.probabilities`, settings by name."""
        held = logits.contiguous()
        weights = self.workspace(int(logits.shape[2]))
        probabilities = torch.empty(logits.shape)
        self._library.talkahead_probabilities(
            *(*logits.shape, held.data_ptr()),
            byref(settings_columns(settings)),
            weights.data_ptr(),
            probabilities.data_ptr(),
        )
        return probabilities

    @property
    def draw_address(self) -> int | None:
        """Of `talkahead_draw`, for native callers."""
        return self._library.address("talkahead_draw")

    @property
    def draw_with_probs_address(self) -> int | None:
        """Of `talkahead_draw_with_probs`."""
        return self._library.address("talkahead_draw_with_probs")

    @property
    def order_address(self) -> int | None:
        """Of `talkahead_order_draws`."""
        return self._library.address("talkahead_order_draws")

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
