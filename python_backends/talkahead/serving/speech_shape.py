"""Rates and sizes of the codec and the talker, read without loading the networks."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Self

from talkahead.config import ModelConfig
from talkahead.errors import ArtifactMismatch


@dataclass(frozen=True)
class SpeechShape:
    """What the frontend has to know of those that speak.

    Args:
        sample_rate_hz: of the codec.
        hop: samples of one of its frames.
        max_positions: prompt rows and frames that the talker holds of one segment.
    """

    sample_rate_hz: int
    hop: int
    max_positions: int

    @classmethod
    def of(cls, config: ModelConfig) -> Self:
        """Of the codec and the talker in the repository of `config`'s model."""
        codec = config.artifact_folder("vocoder") / "codec.json"
        talker = config.artifact_folder("talker") / "config.json"
        try:
            rates, sizes = json.loads(codec.read_text()), json.loads(talker.read_text())
            return cls(rates["sample_rate_hz"], rates["hop"], sizes["max_position_embeddings"])
        except (OSError, KeyError, ValueError) as error:
            raise ArtifactMismatch(
                f"{codec} or {talker} cannot be read ({error!r}); rebuild them with make train"
            ) from error

    def frames(self, seconds: float) -> int:
        """The nearest number of frames."""
        return round(seconds * self.sample_rate_hz / self.hop)
