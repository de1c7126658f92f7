"""The text encoder run by ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Self

import torch
from torch import Tensor

from talkahead.families.network_file import NetworkFile
from talkahead.families.onnx_network import OnnxNetwork
from talkahead.families.phonemic.text_encoder import TextEncoderConfig

NETWORK = NetworkFile("encoder.onnx", "encoder.safetensors", ("symbols", "voice"), ("prompt",))


class OnnxTextEncoder:
    """A `PromptNetwork`."""

    precision = torch.float32

    def __init__(self, network: OnnxNetwork, config: TextEncoderConfig) -> None:
        self._network, self.config = network, config

    @classmethod
    def load(cls, version: Path) -> Self:
        """Of an encoder's version folder."""
        network = OnnxNetwork.load(version, NETWORK)
        return cls(network, TextEncoderConfig.from_file(version / "encoder.json"))

    def prompt(self, symbols: Tensor, voice: int) -> Tensor:
        (prompt,) = self._network(symbols.to(torch.int64), torch.tensor(voice))
        return prompt
