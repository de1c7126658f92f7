"""A talker's sizes in one word."""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from typing import Self

from talkahead.backbone.decoder_config import DecoderConfig


@dataclass(frozen=True)
class Shape:
    """A talker's sizes, written `layers x width x intermediate [x head size] [: vocabulary]`."""

    layers: int
    width: int
    intermediate: int
    head_dim: int
    vocabulary: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads `12x192x512`, `12x192x512x32` or `12x192x512:1001`; raises ArgumentTypeError."""
        found = re.fullmatch(r"(\d+)x(\d+)x(\d+)(?:x(\d+))?(?::(\d+))?", text)
        if not found:
            raise argparse.ArgumentTypeError(
                f"{text!r} is not LAYERSxWIDTHxINTERMEDIATE[xHEAD_DIM][:VOCABULARY]"
            )
        layers, width, intermediate = map(int, found.group(1, 2, 3))
        head_dim = int(found[4] or (32 if width % 64 else 64))
        if width % head_dim:
            raise argparse.ArgumentTypeError(f"{text!r}: heads of {head_dim} do not divide {width}")
        return cls(layers, width, intermediate, head_dim, int(found[5] or 1601))

    @classmethod
    def of(cls, config: DecoderConfig) -> Self:
        """Of a talker that has as many heads of keys and values as of queries."""
        assert config.num_attention_heads == config.num_key_value_heads
        return cls(
            config.num_hidden_layers,
            config.hidden_size,
            config.intermediate_size,
            config.head_dim,
            config.vocab_size,
        )

    def __str__(self) -> str:
        return f"{self.layers}x{self.width}x{self.intermediate}x{self.head_dim}:{self.vocabulary}"

    @property
    def config(self) -> DecoderConfig:
        heads = self.width // self.head_dim
        return DecoderConfig(
            self.vocabulary,
            self.vocabulary - 1,
            hidden_size=self.width,
            intermediate_size=self.intermediate,
            num_hidden_layers=self.layers,
            num_attention_heads=heads,
            num_key_value_heads=heads,
            head_dim=self.head_dim,
        )

    @property
    def parameters(self) -> int:
        """All of them, embeddings and head included."""
        layer = 4 * self.width**2 + 3 * self.width * self.intermediate + 2 * self.width
        return self.layers * layer + 2 * self.vocabulary * self.width + self.width
