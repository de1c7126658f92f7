"""Which decoder runs a talker's weights: native on CPUs that can compile it, torch everywhere else."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from enum import StrEnum

import torch
from torch import Tensor

from talkahead.backbone.cached_decoder import LlamaShape
from talkahead.backbone.native_decoder import NativeDecoder
from talkahead.backbone.slot_decoder import SlotDecoder
from talkahead.errors import TalkaheadError
from talkahead.native_library import NativeUnavailable

_LOG = logging.getLogger(__name__)


class DecoderChoice(StrEnum):
    """`auto` takes the native decoder where it fits; the others insist."""

    AUTO = "auto"
    TORCH = "torch"
    NATIVE = "native"


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
    served = torch.device(device).type == "cpu" and dtype is torch.float32
    if choice is DecoderChoice.NATIVE or (choice is DecoderChoice.AUTO and served):
        try:
            if not served:
                raise NativeUnavailable(f"it computes in float32 on a CPU, not in {dtype} on {device}")
            return NativeDecoder(
                config, state, num_slots=num_slots, max_positions=max_positions, max_nodes=max_nodes
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
