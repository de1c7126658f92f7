"""From a trained draft to the drafter that serves it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import torch
from torch import Tensor

from talkahead.backbone.checkpoint import EMBEDDINGS, HEAD, Checkpoint
from talkahead.backbone.decoder_choice import (
    DecoderChoice,
    can_serve_natively,
    cheapest_precision,
    load_decoder,
)
from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.backbone.llama import Llama
from talkahead.backbone.native_decoder import NativeDecoder
from talkahead.backbone.slot_decoder import SlotDecoder
from talkahead.drafting.calibrated_trees import CalibratedTrees
from talkahead.drafting.draft_artifact import WEIGHTS, Draft
from talkahead.drafting.draft_files import LONGEST_CHAIN
from talkahead.drafting.draft_heads import DraftHeads, weights_of
from talkahead.drafting.draft_lm_drafter import DraftLmDrafter
from talkahead.drafting.heads_drafter import HeadsDrafter
from talkahead.drafting.mtp_drafter import MtpDrafter
from talkahead.drafting.mtp_modules import MtpModules
from talkahead.drafting.native_heads import NativeHeads
from talkahead.drafting.sized_heads import SizedHeadsDrafter
from talkahead.manifest import sha256
from talkahead.native_library import NativeUnavailable
from talkahead.speculation.contracts import Drafter
from talkahead.speculation.rank_paths import RankTree

_CATCH_UP = 8
"""Positions that a draft's decoder is fed at once: after a step of its own it lacks one or two."""


@dataclass(frozen=True)
class DraftOptions:
    """How a drafter drafts.

    Args:
        length: tokens of a chain (`draft_lm`: 3 by default; `mtp`: one of each module).
        nodes: of a tree, root included (`heads`).
        trials: draws that the verifier looks at, which trees were counted for.
        tells_probs: whether verifiers need the distributions of drafted tokens.
    """

    length: int | None = None
    nodes: int = 32
    tells_probs: bool = True
    trials: int = 1


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
    ) -> Self:
        """As cheap as this machine drafts: what a draft loses by rounding is a guess now and then."""
        return cls(num_slots, max_positions, cheapest_precision(device, choice), device, choice)

    def decoder(
        self, config: DecoderConfig, state: Mapping[str, Tensor], ahead: int
    ) -> SlotDecoder | NativeDecoder:
        """One that may run `ahead` positions ahead of the target."""
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
        )


def load_drafter(folder: Path, talker: Path, pool: DraftPool, options: DraftOptions | None = None) -> Drafter:
    """The drafter of a draft's folder, for the talker in `talker`.

    Raises:
        ArtifactMismatch: the draft belongs to another talker, or lacks its trees.
    """
    options = options or DraftOptions()
    network = Draft.load(folder, talker).network
    if isinstance(network, DraftHeads):
        trees = CalibratedTrees.read(folder, sha256(folder / WEIGHTS))
        return heads_drafter(network, trees.within(options.nodes, options.trials), pool)
    if isinstance(network, Llama):
        return draft_lm_drafter(network, pool, options)
    return mtp_drafter(network, Checkpoint(talker), pool, options)


def load_sized_drafter(folder: Path, talker: Path, pool: DraftPool) -> Drafter:
    """As `load_drafter`, but one that drafts as much as each step wants: a context's `wish`."""
    network = Draft.load(folder, talker).network
    if isinstance(network, DraftHeads):
        trees = CalibratedTrees.read(folder, sha256(folder / WEIGHTS))
        heads, native = _placed(network, pool)
        tolerant = {trials: [one.tree for one in own] for trials, own in trees.tolerant.items()}
        return SizedHeadsDrafter(heads, [one.tree for one in trees.trees], native, tolerant)
    if isinstance(network, Llama):
        return draft_lm_drafter(network, pool, DraftOptions(LONGEST_CHAIN))
    return mtp_drafter(network, Checkpoint(talker), pool, DraftOptions())


def heads_drafter(heads: DraftHeads, tree: RankTree, pool: DraftPool) -> HeadsDrafter:
    placed, native = _placed(heads, pool)
    return HeadsDrafter(placed, tree, native)


def _placed(heads: DraftHeads, pool: DraftPool) -> tuple[DraftHeads, NativeHeads | None]:
    """The heads where they run and as narrow as they run, and the same in C, where that is possible."""
    native = _native_heads(heads, pool)
    heads = heads.to(pool.device, _wide(pool))
    heads.narrow(torch.bfloat16 if pool.dtype is torch.int8 else pool.dtype)
    return heads, native


def _native_heads(heads: DraftHeads, pool: DraftPool) -> NativeHeads | None:
    if not can_serve_natively(pool.dtype, pool.device) or pool.choice is DecoderChoice.TORCH:
        return None
    try:
        blocks = weights_of(heads.inward), weights_of(heads.outward)
        return NativeHeads(*blocks, heads.linear_weights(), heads.told(), pool.dtype)
    except NativeUnavailable:
        return None


def draft_lm_drafter(network: Llama, pool: DraftPool, options: DraftOptions) -> DraftLmDrafter:
    length = 3 if options.length is None else options.length
    decoder = pool.decoder(network.config, network.state_dict(), length)
    embeddings = network.model.embed_tokens.weight
    return DraftLmDrafter(decoder, embeddings, length, tells_probs=options.tells_probs)


def mtp_drafter(
    modules: MtpModules, talker: Mapping[str, Tensor], pool: DraftPool, options: DraftOptions
) -> MtpDrafter:
    """`talker`: the target's weights under their Hugging Face names."""
    embeddings = talker[EMBEDDINGS].to(torch.float32, copy=True)
    shared = {EMBEDDINGS: embeddings, HEAD: talker[HEAD]}
    decoders = [
        pool.decoder(modules.config, {**shared, **module.decoder.state_dict()}, len(modules))
        for module in modules
    ]
    return MtpDrafter(modules, decoders, embeddings, options.length, tells_probs=options.tells_probs)


def _wide(pool: DraftPool) -> torch.dtype:
    """Of hidden states: products alone are narrow."""
    return torch.float32 if pool.dtype in (torch.bfloat16, torch.int8) else pool.dtype
