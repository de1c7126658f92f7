"""Which decoder runs a talker's weights, and how precisely: native where it compiles, else torch."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from enum import StrEnum

import torch
from torch import Tensor

from talkahead.backbone import decoder_config
from talkahead.backbone.cuda_graphs import CudaGraphs
from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.backbone.decoder_memory import DecoderMemory
from talkahead.backbone.native_decoder import NativeDecoder, can_multiply, name_of, narrowest_precision
from talkahead.backbone.native_matrix import INT4
from talkahead.backbone.slot_decoder import SlotDecoder
from talkahead.errors import ArtifactMismatch, TalkaheadError
from talkahead.generation_config import AlignmentHead
from talkahead.native_library import NativeUnavailable

_LOG = logging.getLogger(__name__)


class DecoderChoice(StrEnum):
    """`auto` takes the native decoder where it fits; the others insist."""

    AUTO = "auto"
    TORCH = "torch"
    NATIVE = "native"


class StepSizes(StrEnum):
    """Of a device's steps. `buckets` of rows and nodes cost the least; of `one` size, rows are rounded alike
    in any company. On CPUs native code rounds them so in any case."""

    BUCKETS = "buckets"
    ONE = "one"


class Precision(StrEnum):
    """What products are computed in; float32 where the native decoder cannot compute in the others."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    INT8 = "int8"
    INT4 = "int4"

    @property
    def dtype(self) -> torch.dtype:
        dtype: torch.dtype = getattr(torch, self)
        return dtype


_NATIVE = tuple(precision.dtype for precision in Precision)


def load_decoder(
    config: DecoderConfig,
    state: Mapping[str, Tensor],
    *,
    num_slots: int,
    max_positions: int,
    max_nodes: int = 1,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
    choice: DecoderChoice = DecoderChoice.AUTO,
    ahead: int = 0,
    memory_bytes: int | None = None,
    head_of: SlotDecoder | NativeDecoder | None = None,
    alignment_head: AlignmentHead | None = None,
    sizes: StepSizes = StepSizes.BUCKETS,
    is_guessing: bool = False,
) -> SlotDecoder | NativeDecoder:
    """The decoder for this machine, device and precision; arguments as `SlotDecoder`'s.

    Where `state` holds no last norm, the head reads the last layer.

    int8 and int4 are the native decoder's; torch narrows to bfloat16 instead. Where torch stands in for the
    native decoder, it computes in float32: its rows are rounded by company, which narrow products would turn
    into other tokens.

    Args:
        ahead: positions after the last that a draft may run ahead of its target.
        sizes: of steps on a device.
        head_of: one that this function loaded with the same head, precision and choice, to share it.
        is_guessing: it need not tell all logits of a large vocabulary; see `NativeDecoder`.

    Raises:
        ArtifactMismatch: there are more positions than the model was made for.
        TalkaheadError: the native decoder was insisted on and cannot run, or memory is too small.
    """
    if max_positions > config.max_position_embeddings:
        raise ArtifactMismatch(
            f"max_positions is {max_positions:,}; allowed: up to max_position_embeddings of "
            f"{decoder_config.NAME}, which is {config.max_position_embeddings:,}"
        )
    max_positions += ahead
    can_serve = can_serve_natively(dtype, device)
    if choice is DecoderChoice.NATIVE or (choice is DecoderChoice.AUTO and can_serve):
        try:
            if not can_serve:
                raise NativeUnavailable(
                    f"it computes in {', '.join(Precision)} on a CPU, not in {dtype} on {device}"
                )
            return NativeDecoder(
                config,
                state,
                num_slots=num_slots,
                max_positions=max_positions,
                max_nodes=max_nodes,
                precision=_native_precision(dtype),
                memory_bytes=memory_bytes,
                head_of=head_of if isinstance(head_of, NativeDecoder) else None,
                alignment_head=alignment_head,
                threads=torch.get_num_threads(),
                is_guessing=is_guessing,
            )
        except NativeUnavailable as reason:
            if choice is DecoderChoice.NATIVE:
                raise TalkaheadError(f"the native decoder cannot run here: {reason}") from reason
            _LOG.warning("the talker decodes with torch in float32, a few times slower: %s", reason)
            dtype = torch.float32
    return SlotDecoder(
        config,
        state,
        num_slots=num_slots,
        max_positions=max_positions,
        max_nodes=max_nodes,
        dtype=torchs_own(dtype),
        device=device,
        memory_bytes=memory_bytes,
        head_of=head_of if isinstance(head_of, SlotDecoder) else None,
        alignment_head=alignment_head,
        graphs=CudaGraphs(torch.device(device)) if has_graphs(device) else None,
        has_one_size=sizes is StepSizes.ONE,
    )


def count_memory(
    config: DecoderConfig,
    kept: torch.dtype,
    *,
    num_slots: int,
    max_positions: int,
    max_nodes: int = 1,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> DecoderMemory:
    """What `load_decoder` will take by its own choice, for those who only want to know.

    Args:
        kept: the type of the weights in their file.
    """
    sizes = (config, kept, num_slots, max_positions + max_nodes)
    if not can_serve_natively(dtype, device):
        spare_slots = 1 if has_graphs(device) else 0
        return SlotDecoder.count_memory(*sizes, torchs_own(dtype), spare_slots=spare_slots)
    try:
        return NativeDecoder.count_memory(*sizes, dtype if can_multiply(dtype) else torch.float32)
    except NativeUnavailable:
        return SlotDecoder.count_memory(*sizes, torch.float32)


def has_graphs(device: torch.device | str) -> bool:
    """Whether a device's forwards are recorded."""
    return torch.device(device).type == "cuda"


def torchs_own(dtype: torch.dtype) -> torch.dtype:
    """What torch multiplies in where native code does so in whole numbers."""
    return torch.bfloat16 if dtype in (torch.int8, INT4) else dtype


def can_serve_natively(dtype: torch.dtype, device: torch.device | str) -> bool:
    """Whether native code computes in this precision, for this device."""
    return torch.device(device).type == "cpu" and dtype in _NATIVE


def cheapest_precision(device: torch.device | str, choice: DecoderChoice) -> torch.dtype:
    """Of products whose rounding changes no result but how often a guess is right.

    The narrowest that native code multiplies on this CPU; torch's own narrow products are no faster there.
    """
    if torch.device(device).type != "cpu":
        return torch.bfloat16
    if choice is DecoderChoice.TORCH:
        return torch.float32
    try:
        return narrowest_precision()
    except NativeUnavailable:
        return torch.float32


def _native_precision(dtype: torch.dtype) -> torch.dtype:
    if can_multiply(dtype):
        return dtype
    _LOG.warning("the talker decodes in float32: this CPU does not multiply %s (avx512)", name_of(dtype))
    return torch.float32
