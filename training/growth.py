"""How a network goes on from one of another shape, without losing what that one has learned.

A codec may get finer levels and look further ahead, a talker other codes and fewer heads of keys and values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from talkahead.backbone.checkpoint import EMBEDDINGS, HEAD
from talkahead.families.phonemic.quantizer import Quantizer
from talkahead.families.phonemic.spectral_decoder import SpectralConfig
from torch import Tensor

from training.spectral_autoencoder import SpectralAutoencoder


def grown_codec(
    codec: SpectralAutoencoder, sound_levels: tuple[int, ...], prosody_levels: tuple[int, ...], lookahead: int
) -> SpectralAutoencoder:
    """The same, rounding to other levels and told of frames further ahead, which count for nothing yet.

    Raises ValueError for another number of dimensions, or for less look-ahead.
    """
    earlier = codec.decoder.config
    config = replace(earlier, sound_levels=sound_levels, prosody_levels=prosody_levels, lookahead=lookahead)
    if len(config.levels) != len(earlier.levels) or lookahead < earlier.lookahead:
        raise ValueError(
            f"a codec of {len(earlier.levels)} dimensions that looks {earlier.lookahead} frames ahead cannot "
            f"become one of {len(config.levels)} that looks {lookahead} ahead: as many, and at least as far"
        )
    grown, state = SpectralAutoencoder(config), codec.state_dict()
    told = grown.decoder.inward.weight.shape[1] - codec.decoder.inward.weight.shape[1]
    state["decoder.inward.weight"] = torch.nn.functional.pad(codec.decoder.inward.weight.detach(), (0, told))
    grown.load_state_dict(state)
    return grown


def nearest_codes(own: SpectralConfig, earlier: SpectralConfig) -> Tensor:
    """Of each code the earlier codec's that means nearly the same, int64 [codes]; their dimensions agree."""
    meanings = Quantizer(own.levels).decode(torch.arange(own.num_codes))
    counts = torch.tensor(earlier.levels)
    digits = ((meanings + 1) * (counts - 1) / 2).round().long()
    return (digits * Quantizer(earlier.levels).radix).sum(-1)


def recoded(state: Mapping[str, Tensor], nearest: Tensor) -> dict[str, Tensor]:
    """A talker's weights for other codes: each begins as the nearest did; the last row ends speech."""
    rows = torch.cat([nearest, torch.tensor([len(state[HEAD]) - 1])])
    return {**state, **{name: state[name][rows] for name in (EMBEDDINGS, HEAD)}}


def with_key_value_heads(state: Mapping[str, Tensor], count: int, head_dim: int) -> dict[str, Tensor]:
    """A talker's weights with so many heads of keys and values: each the mean of neighbours (Ainslie et al.
    2023, section 2.1)."""

    def pooled(weight: Tensor) -> Tensor:
        return weight.reshape(count, -1, head_dim, weight.shape[1]).mean(1).flatten(0, 1)

    kinds = (".k_proj.weight", ".v_proj.weight")
    return {name: pooled(value) if name.endswith(kinds) else value for name, value in state.items()}
