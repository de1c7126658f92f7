"""Modules of multi-token prediction: from their files to what drafts with them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from talkahead.backbone.checkpoint import EMBEDDINGS, HEAD, NARROWING, Checkpoint
from talkahead.backbone.decoder_choice import torchs_own
from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.backbone.native_decoder import NativeDecoder
from talkahead.backbone.slot_decoder import SlotDecoder
from talkahead.drafting.draft_pool import DraftOptions, DraftPool
from talkahead.drafting.mtp_drafter import MtpDrafter
from talkahead.drafting.mtp_modules import MtpModules
from talkahead.errors import ArtifactMismatch


class MtpKind:
    """The `DraftKind` of `mtp`."""

    def network(self, config: Mapping[str, Any], path: Path, talker: Path) -> MtpModules:
        # Files written before modules could do without a norm, and see prompts, hold neither field, and files
        # written before the layer named its type hold a Llama's.
        layer = DecoderConfig.from_fields({"model_type": "llama", **config["layer"]}, path)
        sees_tokens, sees_prompt = config["sees_tokens"], config.get("sees_prompt", False)
        if sees_tokens and sees_prompt:
            raise ArtifactMismatch(
                f"{path}: sees_prompt and sees_tokens are both true; a prompt has rows, and no tokens to see"
            )
        return MtpModules(
            layer,
            config["num_modules"],
            sees_tokens=sees_tokens,
            has_norm=config.get("has_norm", True),
            sees_prompt=sees_prompt,
            output_rank=config.get("output_rank"),
        )

    def config(self, network: MtpModules) -> dict[str, Any]:
        layer = network.config.to_hugging_face()
        return {
            "num_modules": len(network),
            "sees_tokens": network.sees_tokens,
            "has_norm": network.has_norm,
            "sees_prompt": network.sees_prompt,
            "output_rank": network.output_rank,
            "layer": layer,
        }

    def num_bytes(self, network: MtpModules, pool: DraftPool) -> int:
        """Each module has a layer with its keys and values, the states that it is fed, and a row for each
        token; the head is there once."""
        config, wide = network.config, torch.float32.itemsize
        memory = pool.count(config, len(network))
        table, narrow = config.vocab_size * config.hidden_size, torchs_own(pool.dtype).itemsize
        head = _numel(network.lm_head) if network.lm_head is not None else table
        slots = (memory.num_slots + memory.spare_slots) * memory.slot
        states = memory.num_slots * memory.num_positions * config.hidden_size * wide
        rows = (config.vocab_size if network.sees_tokens else 1) * config.hidden_size * wide
        layer = memory.weights - narrow * table + pool.step_bytes(config)
        return narrow * head + len(network) * (layer + slots + states + rows) + wide * _numel(network.cascade)

    def drafter(
        self, network: MtpModules, folder: Path, talker: Path, pool: DraftPool, options: DraftOptions
    ) -> MtpDrafter:
        return mtp_drafter(network, Checkpoint(talker), pool, options)


def _numel(network: nn.Module) -> int:
    return sum(one.numel() for one in network.parameters())


def mtp_drafter(
    modules: MtpModules, talker: Mapping[str, Tensor], pool: DraftPool, options: DraftOptions
) -> MtpDrafter:
    """`talker`: the target's weights under their Hugging Face names."""
    embeddings = talker[EMBEDDINGS]
    # Modules are fed rows, never tokens.
    shared = {EMBEDDINGS: embeddings[:0], **head_tables(modules, talker)}
    decoders: list[SlotDecoder | NativeDecoder] = []
    for module in modules:
        state = {**shared, **module.decoder.state_dict()}
        first = decoders[0] if decoders else None
        decoders.append(pool.decoder(modules.config, state, len(modules), head_of=first))
    return MtpDrafter(modules, decoders, embeddings, options.length, returns_probs=options.returns_probs)


def head_tables(modules: MtpModules, talker: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What reads their states."""
    if modules.lm_head is None:
        return {HEAD: talker[HEAD]}
    return {NARROWING: modules.lm_head.inner.weight, HEAD: modules.lm_head.outer.weight}
