"""What drafters run in: the target's slots, and how much is drafted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from talkahead.backbone.decoder_choice import (
    DecoderChoice,
    cheapest_precision,
    count_memory,
    has_graphs,
    load_decoder,
)
from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.backbone.decoder_memory import DecoderMemory
from talkahead.backbone.native_decoder import NativeDecoder
from talkahead.backbone.native_matrix import INT4
from talkahead.backbone.slot_decoder import SlotDecoder

_CATCH_UP = 8
"""Positions that a draft's decoder is fed at once: after a step of its own it lacks one or two."""


@dataclass(frozen=True)
class DraftOptions:
    """How a drafter drafts.

    Args:
        nodes: of a tree, root included; of a chain, its length and one. None: what each step wants, a
            context's `draft_request`.
        trials: draws that the verifier looks at, which trees were counted for.
        returns_probs: whether verifiers need the distributions of drafted tokens.
    """

    nodes: int | None = None
    returns_probs: bool = True
    trials: int = 1

    @property
    def length(self) -> int | None:
        """Tokens of a chain."""
        return None if self.nodes is None else self.nodes - 1


@dataclass(frozen=True)
class DraftPool:
    """The target's slots, which a draft's decoders follow.

    Args:
        max_positions: of the target's slots.
        dtype: of products.
    """

    num_slots: int
    max_positions: int
    dtype: torch.dtype = torch.float32
    device: str = "cpu"
    choice: DecoderChoice = DecoderChoice.AUTO

    @classmethod
    def serving(
        cls,
        num_slots: int,
        max_positions: int,
        device: str = "cpu",
        choice: DecoderChoice = DecoderChoice.AUTO,
        target: torch.dtype = torch.float32,
    ) -> Self:
        """As cheap as this machine drafts: what a draft loses by rounding is a guess now and then.

        Args:
            target: of the target's products. A talker that is read in four bits is one that memory bounds,
                and so is its draft; one that stays in the cache loses more by four bits than they save.
        """
        dtype = cheapest_precision(device, choice)
        is_narrower = target is INT4 and dtype is torch.int8
        return cls(num_slots, max_positions, INT4 if is_narrower else dtype, device, choice)

    def count(self, config: DecoderConfig, ahead: int) -> DecoderMemory:
        """What `decoder` will take, of weights that were read as float32."""
        return count_memory(
            *(config, torch.float32),
            num_slots=self.num_slots,
            max_positions=self.max_positions + ahead,
            max_nodes=_CATCH_UP,
            dtype=self.dtype,
            device=self.device,
        )

    def step_bytes(self, config: DecoderConfig) -> int:
        """What logits lie in and are computed in, where a decoder's forwards are recorded."""
        logits = self.num_slots * _CATCH_UP * config.vocab_size * torch.float32.itemsize
        return 2 * logits if has_graphs(self.device) else 0

    def decoder(
        self,
        config: DecoderConfig,
        state: Mapping[str, Tensor],
        ahead: int,
        head_of: SlotDecoder | NativeDecoder | None = None,
    ) -> SlotDecoder | NativeDecoder:
        """One that may run `ahead` positions ahead of the target.

        Args:
            head_of: one of this pool that has the same head, to share it.
        """
        return load_decoder(
            config,
            state,
            num_slots=self.num_slots,
            max_positions=self.max_positions,
            ahead=ahead,
            max_nodes=_CATCH_UP,
            dtype=self.dtype,
            device=self.device,
            choice=self.choice,
            head_of=head_of,
            is_guessing=True,
        )
