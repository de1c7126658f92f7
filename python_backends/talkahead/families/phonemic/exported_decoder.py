"""The spectral decoder's network run from its exported file."""

from __future__ import annotations

from pathlib import Path
from typing import Self

import torch
from torch import Tensor

from talkahead.families.network_engines import Network, load_network
from talkahead.families.network_file import NetworkFile
from talkahead.families.phonemic.spectral_decoder import (
    CONFIG_FILE,
    NetworkOutput,
    Pitch,
    Spectra,
    SpectralConfig,
)

NETWORK = NetworkFile(
    "codec.onnx",
    "codec.safetensors",
    ("codes", "valid", "before"),
    (*Spectra._fields, *Pitch._fields, "seen"),
)


class ExportedDecoder:
    """A `SpectralNetwork`."""

    dtype = torch.float32

    def __init__(self, network: Network, config: SpectralConfig) -> None:
        self._network, self.config, self.precision = network, config, network.precision

    @classmethod
    def load(cls, version: Path, engine: str) -> Self:
        """Of a vocoder's version folder."""
        network = load_network(engine, version, NETWORK)
        return cls(network, SpectralConfig.from_file(version / CONFIG_FILE))

    def __call__(self, codes: Tensor, valid: Tensor, before: Tensor) -> NetworkOutput:
        *spectra, height, voicing, seen = self._network(codes, valid, before)
        return NetworkOutput(Spectra(*spectra), Pitch(height, voicing), seen)
