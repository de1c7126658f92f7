"""The text encoder: how it becomes ONNX, and how its prompts are compared with torch's.

A segment is encoded by itself, of any length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import torch
from talkahead.errors import TalkaheadError
from talkahead.families.contracts import Units
from talkahead.families.network_file import NetworkFile
from talkahead.families.onnx_network import ONNXRUNTIME
from talkahead.families.phonemic.frontend import NAME
from talkahead.families.phonemic.onnx_text_encoder import NETWORK
from talkahead.families.phonemic.prompt import load_network
from talkahead.families.phonemic.text_encoder import PromptNetwork, TextEncoder
from talkahead.text import TextFrontend
from torch import Tensor, nn
from torch.export import Dim

from build_engines.figures import Figure, Parity, apart
from build_engines.network_source import Trace, family_of, version_folder
from build_engines.parity_material import read_texts

_LIMITS = {torch.float32: (1e-4, 1e-5), torch.bfloat16: (1e-2, 2e-3), torch.int8: (4e-2, 5e-3)}
"""Largest and mean difference, by the precision of products."""
_CPU = torch.device("cpu")


class _OneSegment(nn.Module):
    """Symbols [T, 4] and a voice [] to the prompt [T + 1, D]."""

    def __init__(self, encoder: TextEncoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, symbols: Tensor, voice: Tensor) -> Tensor:
        length = torch.full((1,), symbols.shape[0], dtype=torch.int64)
        prompts: Tensor = self.encoder(symbols[None], length, voice[None])
        return prompts[0]


@dataclass(frozen=True)
class EncoderSource:
    """The `NetworkSource` of the model `encoder`."""

    repository: Path

    file: ClassVar[NetworkFile] = NETWORK
    engines: ClassVar[tuple[str, ...]] = (ONNXRUNTIME,)

    @property
    def version(self) -> Path:
        """Raises TalkaheadError where the encoder has no network."""
        if (family := family_of(self.repository)) != NAME:
            raise TalkaheadError(
                f"--repository {self.repository} holds a voice of the family {family}, whose encoder looks "
                f"rows up in a table; engines are made of the encoders of {NAME} voices alone"
            )
        return version_folder(self.repository, "encoder")

    def at(self, repository: Path) -> EncoderSource:
        return EncoderSource(repository)

    def trace(self) -> Trace:
        example = torch.zeros(16, 4, dtype=torch.int64), torch.tensor(0)
        dynamic = {"symbols": {0: Dim("units", min=1)}, "voice": None}
        return Trace(_OneSegment(TextEncoder.load(self.version)), example, dynamic)

    def parity(self, engine: str) -> Parity:
        return compare(load_network(self.version, _CPU, engine), TextEncoder.load(self.version))


def compare(network: PromptNetwork, reference: PromptNetwork) -> Parity:
    """Prompts of real texts in every voice, a recording's own among them."""
    largest, mean = _LIMITS[network.precision]
    symbols = [segment.symbols for text in read_texts() for segment in TextFrontend().segments(text)]
    asked = list(product(symbols, range(len(reference.config.voices) + 1)))
    found_largest, found_mean = apart(_prompts(network, asked), _prompts(reference, asked))
    return Parity(
        (
            Figure("largest", "largest difference of a number, over the largest", found_largest, largest),
            Figure("mean", "mean difference of a number, over the largest", found_mean, mean),
        )
    )


def _prompts(network: PromptNetwork, asked: Sequence[tuple[Units, int]]) -> npt.NDArray[np.float32]:
    """All of them, row after row."""
    rows = [network.prompt(torch.from_numpy(symbols), voice).float().numpy() for symbols, voice in asked]
    return np.concatenate(rows)
