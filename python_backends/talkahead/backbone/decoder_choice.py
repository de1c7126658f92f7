"""Which decoder runs a talker's weights, and how precisely: native where it compiles, else torch."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from enum import StrEnum

import torch
from torch import Tensor

from talkahead.backbone.cached_decoder import LlamaShape
from talkahead.backbone.native_decoder import NativeDecoder, has_bfloat16
from talkahead.backbone.slot_decoder import SlotDecoder
from talkahead.errors import TalkaheadError
from talkahead.native_library import NativeUnavailable

_LOG = logging.getLogger(__name__)


class DecoderChoice(StrEnum):
    """`auto` takes the native decoder where it fits; the others insist."""

    AUTO = "auto"
    TORCH = "torch"
    NATIVE = "native"


class Precision(StrEnum):
    """What products are computed in; `bfloat16` becomes float32 on a CPU that does not multiply it."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"

    @property
    def dtype(self) -> torch.dtype:
        return torch.bfloat16 if self is Precision.BFLOAT16 else torch.float32


def load_decoder(
    config: LlamaShape,
    state: Mapping[str, Tensor],
    *,
    num_slots: int,
    max_positions: int,
    max_nodes: int = 1,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
    choice: DecoderChoice = DecoderChoice.AUTO,
) -> SlotDecoder | NativeDecoder:
    """The decoder for this machine, device and precision; arguments as `SlotDecoder`'s.

    Raises:
        TalkaheadError: the native decoder was insisted on and cannot run.
    """
    can_serve = torch.device(device).type == "cpu" and dtype in (torch.float32, torch.bfloat16)
    if choice is DecoderChoice.NATIVE or (choice is DecoderChoice.AUTO and can_serve):
        try:
            if not can_serve:
                raise NativeUnavailable(
                    f"it computes in float32 or bfloat16 on a CPU, not in {dtype} on {device}"
                )
            return NativeDecoder(
                config,
                state,
                num_slots=num_slots,
                max_positions=max_positions,
                max_nodes=max_nodes,
                precision=_native_precision(dtype),
            )
        except NativeUnavailable as reason:
            if choice is DecoderChoice.NATIVE:
                raise TalkaheadError(f"the native decoder cannot run here: {reason}") from reason
            _LOG.warning("the talker decodes with torch, which takes a few times longer: %s", reason)
    return SlotDecoder(
        config,
        state,
        num_slots=num_slots,
        max_positions=max_positions,
        max_nodes=max_nodes,
        dtype=dtype,
        device=device,
    )


def _native_precision(dtype: torch.dtype) -> torch.dtype:
    if dtype is torch.bfloat16 and not has_bfloat16():
        _LOG.warning("the talker decodes in float32: this CPU does not multiply bfloat16 (avx512_bf16)")
        return torch.float32
    return dtype
