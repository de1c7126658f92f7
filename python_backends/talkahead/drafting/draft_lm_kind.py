"""A small talker that drafts: from its files to what drafts with it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.backbone.llama import Llama
from talkahead.drafting.draft_lm_drafter import DraftLmDrafter
from talkahead.drafting.draft_pool import DraftOptions, DraftPool
from talkahead.drafting.draft_sizes import LONGEST_CHAIN


class DraftLmKind:
    """The `DraftKind` of `draft_lm`."""

    def network(self, config: Mapping[str, Any], path: Path, talker: Path) -> Llama:
        return Llama(DecoderConfig.from_fields(config, path))

    def config(self, network: Llama) -> dict[str, Any]:
        return network.config.to_hugging_face()

    def num_bytes(self, network: Llama, pool: DraftPool) -> int:
        """It embeds what it drafts by a table of its own, beside the decoder's."""
        memory = pool.count(network.config, LONGEST_CHAIN)
        return memory.total + memory.embeddings + pool.step_bytes(network.config)

    def drafter(
        self, network: Llama, folder: Path, talker: Path, pool: DraftPool, options: DraftOptions
    ) -> DraftLmDrafter:
        return draft_lm_drafter(network, pool, options)


def draft_lm_drafter(network: Llama, pool: DraftPool, options: DraftOptions) -> DraftLmDrafter:
    length = LONGEST_CHAIN if options.length is None else options.length
    decoder = pool.decoder(network.config, network.state_dict(), length)
    embeddings = network.model.embed_tokens.weight
    return DraftLmDrafter(decoder, embeddings, length, returns_probs=options.returns_probs)
