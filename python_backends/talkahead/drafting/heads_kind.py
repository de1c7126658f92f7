"""Draft heads: from their files to what drafts with them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from talkahead.backbone.checkpoint import EMBEDDINGS, HEAD, Checkpoint
from talkahead.backbone.decoder_choice import DecoderChoice, can_serve_natively, torchs_own
from talkahead.drafting.calibrated_trees import CalibratedTrees
from talkahead.drafting.draft_files import WEIGHTS
from talkahead.drafting.draft_heads import DraftHeads, weights_of
from talkahead.drafting.draft_pool import DraftOptions, DraftPool
from talkahead.drafting.heads_drafter import HeadsDrafter, SizedHeadsDrafter
from talkahead.drafting.native_heads import NativeHeads
from talkahead.drafting.rank_paths import RankTree
from talkahead.manifest import sha256
from talkahead.native_library import NativeUnavailable
from talkahead.speculation.contracts import Drafter


class HeadsKind:
    """The `DraftKind` of `heads`."""

    def network(self, config: Mapping[str, Any], path: Path, talker: Path) -> DraftHeads:
        shape = (config["num_heads"], config["width"], config["vocab_size"])
        # Files written before heads could have several blocks or share tables have one, and their own.
        blocks = {"block_size": config["block_size"], "num_blocks": config.get("num_blocks", 1)}
        shares, rank = config.get("shares_tables", False), config.get("output_rank")
        heads = DraftHeads(
            *shape, **blocks, sees_tokens=config["sees_tokens"], shares_tables=shares, output_rank=rank
        )
        if shares:
            target = Checkpoint(talker)
            heads.take_tables(target[HEAD], target[EMBEDDINGS])
        return heads

    def config(self, network: DraftHeads) -> dict[str, Any]:
        return {
            "num_heads": len(network),
            "width": network.width,
            "block_size": network.block_size,
            "num_blocks": network.num_blocks,
            "vocab_size": network.vocab_size,
            "sees_tokens": network.sees_tokens,
            "shares_tables": network.shares_tables,
            "output_rank": network.output_rank,
        }

    def num_bytes(self, network: DraftHeads, pool: DraftPool) -> int:
        wide, narrow = _wide(pool).itemsize, torchs_own(pool.dtype).itemsize
        in_products = sum(table.numel() for own in network.distinct_weights() for table in own)
        everything = (*network.parameters(), *network.buffers())
        return wide * (sum(one.numel() for one in everything) - in_products) + narrow * in_products

    def drafter(
        self, network: DraftHeads, folder: Path, talker: Path, pool: DraftPool, options: DraftOptions
    ) -> Drafter:
        trees = CalibratedTrees.read(folder, sha256(folder / WEIGHTS))
        if options.nodes is not None:
            return heads_drafter(network, trees.within(options.nodes, options.trials), pool)
        heads, native = _placed(network, pool)
        tolerant = {trials: [one.tree for one in own] for trials, own in trees.tolerant.items()}
        return SizedHeadsDrafter(heads, [one.tree for one in trees.trees], native, tolerant)


def heads_drafter(heads: DraftHeads, tree: RankTree, pool: DraftPool) -> HeadsDrafter:
    placed, native = _placed(heads, pool)
    return HeadsDrafter(placed, tree, native)


def _placed(heads: DraftHeads, pool: DraftPool) -> tuple[DraftHeads, NativeHeads | None]:
    """The heads where they run and as narrow as they run, and the same in C, where that is possible."""
    native = _native_heads(heads, pool)
    heads = heads.to(pool.device, _wide(pool))
    heads.narrow(torchs_own(pool.dtype))
    return heads, native


def _native_heads(heads: DraftHeads, pool: DraftPool) -> NativeHeads | None:
    if not can_serve_natively(pool.dtype, pool.device) or pool.choice is DecoderChoice.TORCH:
        return None
    if heads.num_blocks > 1:
        return None
    try:
        blocks = weights_of(heads.inward), weights_of(heads.outward)
        return NativeHeads(*blocks, heads.linear_weights(), heads.token_rows(), pool.dtype)
    except NativeUnavailable:
        return None


def _wide(pool: DraftPool) -> torch.dtype:
    """Of hidden states: products alone are narrow."""
    own = torchs_own(pool.dtype)
    return torch.float32 if own is torch.bfloat16 else own
