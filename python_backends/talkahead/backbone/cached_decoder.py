"""What decoders over cached slots have in common: sizes, and what happens to slots between forwards."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.backbone.decoder_memory import DecoderMemory
from talkahead.backbone.prompt_alignment import PromptAlignment
from talkahead.generation_config import AlignmentHead
from talkahead.speculation.contracts import Accepted
from talkahead.speculation.rows import Rows
from talkahead.speculation.token_tree import TreeShape


class Cache(Protocol):
    """Keys and values by slot; what lies after a slot's length is scratch."""

    lengths: Tensor
    """int64 [slots]"""

    def compact(self, accepted: Accepted, rows: Rows) -> None:
        """Bring each row's accepted nodes, which lie after its length in tree order, next to each other."""


class CachedDecoder:
    """Holds sizes; a subclass adds the cache, `prefill` and `score`.

    Args:
        config: the model's shape.
        num_slots: streams that can hold KV at once.
        max_positions: prompt and frames of one slot.
        max_nodes: the largest tree; that many scratch positions lie after each slot.
        dtype: of logits and hidden states.
        memory: what it will take.
        memory_bytes: what it may take; without it, as much as it asks for.
        alignment_head: the one that tells which row of the prompt is spoken, if the model has one.
        spare_slots: after these, for what belongs to no stream.

    Raises:
        TalkaheadError: that is less than its slots take.
    """

    cache: Cache

    def __init__(
        self,
        config: DecoderConfig,
        *,
        num_slots: int,
        max_positions: int,
        max_nodes: int,
        dtype: torch.dtype,
        device: torch.device,
        memory: DecoderMemory,
        memory_bytes: int | None,
        alignment_head: AlignmentHead | None,
        spare_slots: int = 0,
    ) -> None:
        if memory_bytes is not None:
            memory.refuse_beyond(memory_bytes)
        self.memory = memory
        self.config = config
        self.num_slots = num_slots
        self.spare_slots = spare_slots
        self.max_positions = max_positions
        self.max_nodes = max_nodes
        self.dtype = dtype
        self.device = device
        self.alignment = (
            None
            if alignment_head is None
            else PromptAlignment(alignment_head, num_slots + spare_slots, max_positions + max_nodes, device)
        )

    @property
    def vocab_size(self) -> int:
        return self.config.vocab_size

    @property
    def hidden_size(self) -> int:
        return self.config.hidden_size

    @property
    def eos(self) -> int:
        return self.config.eos

    def commit(self, accepted: Accepted, shape: TreeShape, rows: Rows) -> None:
        """Keep the KV of the accepted path, right after what was there; the rest is scratch again."""
        if not shape.is_chain:
            self.cache.compact(accepted, rows)
        self._lengthen(accepted.counts, rows)

    def aligned(self, slot: int, first: int, beyond: int) -> npt.NDArray[np.int32] | None:
        """The rows of its prompt that a slot's positions from `first` to `beyond` speak; None where the model
        has no head that tells."""
        return None if self.alignment is None else self.alignment.read(slot, first, beyond)

    def lengths(self, rows: Rows) -> Tensor:
        """Valid positions of each row's slot, int64 [S]; a copy."""
        return self.cache.lengths.index_select(0, rows.slots)

    def _lengthen(self, counts: Tensor, rows: Rows) -> None:
        """So many more positions [S] of each row's slot are valid."""
        self.cache.lengths.index_add_(0, rows.slots, counts)

    def keep(self, lengths: Tensor, rows: Rows) -> None:
        """Of each row's slot the first `lengths` [S] positions are valid; the others are scratch again."""
        self.cache.lengths.index_copy_(0, rows.slots, lengths)

    def release(self, slot: int) -> None:
        # Not `= 0`, which CUDA copies from the host, and no graph can be recorded of.
        self.cache.lengths[slot].zero_()
