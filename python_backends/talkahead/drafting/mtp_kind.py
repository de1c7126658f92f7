"""Modules of multi-token prediction: from their files to what drafts with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import Tensor

from talkahead.backbone.llama import LlamaConfig, load_llama
from talkahead.drafting.draft_pool import DraftOptions, DraftPool
from talkahead.drafting.mtp_drafter import MtpDrafter
from talkahead.drafting.mtp_modules import MtpModules


class MtpKind:
    """The `DraftKind` of `mtp`."""

    def network(self, config: Mapping[str, Any]) -> MtpModules:
        layer = LlamaConfig(**config["layer"])
        return MtpModules(layer, config["num_modules"], sees_tokens=config["sees_tokens"])

    def config(self, network: MtpModules) -> dict[str, Any]:
        layer = asdict(network.config)
        return {"num_modules": len(network), "sees_tokens": network.sees_tokens, "layer": layer}

    def drafter(
        self, network: MtpModules, folder: Path, talker: Path, pool: DraftPool, options: DraftOptions
    ) -> MtpDrafter:
        return mtp_drafter(network, load_llama(talker)[1], pool, options)


def mtp_drafter(
    modules: MtpModules, talker: Mapping[str, Tensor], pool: DraftPool, options: DraftOptions
) -> MtpDrafter:
    """`talker`: the target's weights under their Hugging Face names."""
    decoders = [
        pool.decoder(modules.config, {**talker, **module.decoder.state_dict()}, len(modules))
        for module in modules
    ]
    embeddings = talker["model.embed_tokens.weight"]
    return MtpDrafter(modules, decoders, embeddings, options.length, tells_probs=options.tells_probs)
