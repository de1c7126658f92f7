"""What a server's models take of one GPU together, counted before the talker takes its part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import torch

from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.backbone.decoder_memory import DecoderMemory, shown
from talkahead.config import ModelConfig
from talkahead.drafting.draft_artifact import count_draft_bytes
from talkahead.drafting.draft_files import draft_folder
from talkahead.drafting.draft_pool import DraftPool
from talkahead.errors import Code, TalkaheadError

_NEIGHBOURS = ("encoder", "vocoder")
"""Models that compute beside the talker."""
_CONTEXTS = 3 << 29
"""Bytes of the three processes' contexts, and of what products and graphs work in: some 500 MiB each."""
_DRAW_BYTES = 80
"""Of each token that a draw looks at: its logit, its place, weight and noise, and what these are made by."""


@dataclass(frozen=True)
class GpuMemory:
    """In bytes.

    Args:
        talker: its weights, keys and values.
        steps: what the largest step's logits lie in, and are computed and drawn from in.
        drafts: all that drafts for it.
        neighbours: the weights of the models beside it, as their files hold them.
    """

    talker: DecoderMemory
    steps: int
    drafts: int
    neighbours: int

    @classmethod
    def of(
        cls,
        config: ModelConfig,
        shape: DecoderConfig,
        talker: DecoderMemory,
        max_nodes: int,
        drafters: Sequence[str],
        pool: DraftPool,
        support: int | None,
    ) -> Self:
        """`support`: tokens that requests which say nothing are drawn from; None: all."""
        nodes = talker.num_slots * max_nodes
        logits = nodes * shape.vocab_size * torch.float32.itemsize
        draws = nodes * (support or shape.vocab_size) * _DRAW_BYTES
        drafts = sum(
            count_draft_bytes(draft_folder(config.folder, name), config.folder, pool) for name in drafters
        )
        neighbours = sum(_weight_bytes(config.artifact_folder(model)) for model in _NEIGHBOURS)
        return cls(talker, 2 * logits + draws, drafts, neighbours)

    @property
    def total(self) -> int:
        return self.own + self.neighbours + _CONTEXTS

    @property
    def own(self) -> int:
        """Of the talker's process."""
        return self.talker.total + self.steps + self.drafts

    def refuse_beyond(self, free: int, total: int, device: str) -> None:
        """Raises TalkaheadError where the GPU has not so much, or others hold too much of it.

        Args:
            free, total: bytes of the GPU. Models that have been loaded hold their part already.
            device: its name.
        """
        if self.total <= total and self.own <= free:
            return
        fitting = (
            f"it has {shown(total)}, and the server takes {shown(self.total)}"
            if self.total > total
            else f"{shown(free)} of its {shown(total)} are free, and the talker takes {shown(self.own)}"
        )
        short = max(self.total - total, self.own - free)
        slots = max(self.talker.num_slots - -(-short // self.talker.slot), 0)
        parts = (
            *self.talker.lines()[:-1],
            f"steps {shown(self.steps)}",
            f"drafts {shown(self.drafts)}",
            f"encoder and codec {shown(self.neighbours)}",
            f"contexts {shown(_CONTEXTS)}",
        )
        remedy = f"slots up to {slots}" if slots else "a smaller talker, narrower products or fewer drafts"
        raise TalkaheadError(
            f"talker on {device}: {fitting}; allowed: {remedy} ({'; '.join(parts)})", Code.RESOURCE_EXHAUSTED
        )


def refuse_beyond_gpu(memory: GpuMemory, device: torch.device) -> None:
    """`GpuMemory.refuse_beyond` for what a CUDA device has."""
    free, total = torch.cuda.mem_get_info(device)
    memory.refuse_beyond(free, total, f"{device} ({torch.cuda.get_device_name(device)})")


def _weight_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*.safetensors"))
