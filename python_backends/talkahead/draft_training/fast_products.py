"""The precision that products of a training are fastest in."""

from __future__ import annotations

import torch

from talkahead.cpu_path import has_bfloat16_products


def fast_products(device: str = "cpu") -> torch.autocast:
    """A context in which products are of bfloat16, where the device has them: a CPU that imitates them takes
    ten times as long."""
    enabled = device != "cpu" or has_bfloat16_products()
    return torch.autocast(device, dtype=torch.bfloat16, enabled=enabled)
