"""Rotary positions: the angles by which pairs of a query's or key's values are turned at each position.

After Su et al. 2021, with scalings for contexts longer than the first one: linear, and Llama 3's.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from talkahead.backbone.decoder_config import DecoderConfig, LinearScaling, Llama3Scaling


def rope_angles(config: DecoderConfig, length: int) -> Tensor:
    """Float64 [length, head_dim / 2], of positions 0..length-1; pairs are half a head apart."""
    speeds = config.rope_theta ** -(
        torch.arange(0, config.head_dim, 2, dtype=torch.float64) / config.head_dim
    )
    match config.rope_scaling:
        case LinearScaling(factor):
            speeds = speeds / factor
        case Llama3Scaling() as scaling:
            speeds = _slowed(speeds, scaling)
    return torch.outer(torch.arange(length, dtype=torch.float64), speeds)


def _slowed(speeds: Tensor, scaling: Llama3Scaling) -> Tensor:
    """What of a wave fits the first context more often than `high_freq_factor` keeps its speed, less often
    than `low_freq_factor` loses all that `factor` takes, and between them the share falls evenly."""
    turns = scaling.original_max_position_embeddings * speeds / (2 * math.pi)
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    kept = ((turns - low) / (high - low)).clamp(0, 1)
    return speeds * (kept + (1 - kept) / scaling.factor)
