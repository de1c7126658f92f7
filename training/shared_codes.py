"""What codes of one tone, or of one spectrum, have in common.

A code is two numbers in one: tone * spectra + spectrum.

A talker that learns treats each code as a thing of its own, and most codes are rare. While it is trained, a
code's vector is the sum of its own and two that it shares: with all codes of its pitch, and with all of its
spectrum. What is served is the sum: a Llama like any other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import torch
from talkahead.backbone.llama import Llama
from talkahead.families.phonemic.spectral_decoder import CONFIG_FILE, SpectralConfig
from torch import Tensor, nn
from torch.nn.utils import parametrize


@dataclass(frozen=True)
class CodeFactors:
    """How many tones and how many spectra the codes of a codec tell apart."""

    tones: int
    spectra: int

    @property
    def num_codes(self) -> int:
        return self.tones * self.spectra

    @classmethod
    def of(cls, folder: Path) -> Self:
        """Of a codec's folder."""
        config = SpectralConfig.from_file(folder / CONFIG_FILE)
        return cls(math.prod(config.prosody_levels), math.prod(config.sound_levels))


class SharedVectors(nn.Module):
    """Adds the shared vectors to a table [V + 1, D], whose last row is the end of speech."""

    def __init__(self, factors: CodeFactors, width: int) -> None:
        super().__init__()
        self.tones = nn.Parameter(torch.zeros(factors.tones, 1, width))
        self.spectra = nn.Parameter(torch.zeros(1, factors.spectra, width))

    def forward(self, table: Tensor) -> Tensor:
        shared = (self.tones + self.spectra).flatten(0, 1)
        return torch.cat([table[:-1] + shared, table[-1:]])


def share(talker: Llama, factors: CodeFactors) -> None:
    """Lets the talker's embedding and head share vectors from now on."""
    for table in (talker.model.embed_tokens, talker.lm_head):
        shared = SharedVectors(factors, talker.config.hidden_size)
        parametrize.register_parametrization(table, "weight", shared)


def plain(talker: Llama) -> Llama:
    """A copy without shared vectors, which computes the same."""
    tables = {
        "model.embed_tokens.weight": talker.model.embed_tokens.weight.detach(),
        "lm_head.weight": talker.lm_head.weight.detach(),
    }
    own = {name: value for name, value in talker.state_dict().items() if "parametrizations" not in name}
    copy = Llama(talker.config)
    copy.load_state_dict({**own, **tables})
    return copy
