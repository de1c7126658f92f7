"""Counter-based random numbers: a draw depends on its key alone, never on the batch, the load or the order.

A key is (seed, segment, position, purpose); an index below it is a vocabulary entry or a trial. It is int64
arithmetic that wraps, the same on every device. Shapes: B rows, K indices.
"""

from __future__ import annotations

from enum import IntEnum

import torch
from torch import Tensor

_GOLDEN = -0x61C8864680B583EB  # 2**64 / golden ratio, as a signed number
_MIX_1 = -0x40A7B892E31B1A47  # the two multipliers of the splitmix64 finaliser
_MIX_2 = -0x6B2FB644ECCEEE15
_UNIT = 2.0**-53


class Purpose(IntEnum):
    """What a draw is for; two purposes never share noise, except on purpose."""

    TOKEN = 0
    """The target's token at a position. A sampled draft uses it too (Gumbel coupling)."""
    ACCEPT = 1
    """Whether a drafted token at a position is accepted: two numbers for each sibling in turn."""
    RESIDUAL = 2
    """The token at a position where the draft was refused."""
    TRIAL = 3
    """The key of another stream of draws; the position counts the streams."""


def _shift(value: Tensor, bits: int) -> Tensor:
    """Logical right shift of int64."""
    return (value >> bits) & ((1 << (64 - bits)) - 1)


def _mix(value: Tensor) -> Tensor:
    """The splitmix64 finaliser: every output bit depends on every input bit."""
    value = (value ^ _shift(value, 30)) * _MIX_1
    value = (value ^ _shift(value, 27)) * _MIX_2
    return value ^ _shift(value, 31)


def stream_keys(seeds: Tensor, segments: Tensor) -> Tensor:
    """Key of a segment's draws, int64 [B] from int64 [B] each; computed once per segment."""
    return _mix(_mix(seeds + _GOLDEN) + segments * _GOLDEN)


def draw_keys(stream: Tensor, positions: Tensor, purpose: Purpose) -> Tensor:
    """Key of one draw: `stream` from `stream_keys`, `positions` int64 of a shape that broadcasts with it."""
    return _mix(stream + (positions * len(Purpose) + int(purpose) + 1) * _GOLDEN)


def trial_streams(stream: Tensor, num_trials: int) -> Tensor:
    """Keys of so many independent streams of draws, int64 [B, T]; the first is `stream` [B] itself."""
    trials = torch.arange(1, max(1, num_trials), device=stream.device)
    keys = torch.cat([stream[:, None], draw_keys(stream[:, None], trials, Purpose.TRIAL)], dim=1)
    return keys[:, :num_trials]


def uniforms(keys: Tensor, indices: Tensor) -> Tensor:
    """float64 in the open interval (0, 1), one per (key, index); shapes broadcast."""
    bits = _mix(keys + (indices + 1) * _GOLDEN)
    return (_shift(bits, 11).to(torch.float64) + 0.5) * _UNIT


def exponentials(keys: Tensor, indices: Tensor) -> Tensor:
    """Exponential waiting times, float64: argmax(p / times) is a draw from p.

    Draft and target share them, so that a good draft often draws what the target does (Gumbel coupling).
    """
    return -torch.log(uniforms(keys, indices))
