"""A codec that encodes recordings, for no family without a download has one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from talkahead.config import AUTO
from talkahead.families.contracts import Codec, CodecWindow, Decoded, Family, Frames, Samples
from talkahead.families.phonemic.spectral_codec import SpectralCodec
from tiny_voice import CODES, HOP

_STEP = 1e-4
"""Between the loudnesses of neighbouring codes."""


class ListeningCodec:
    """A `Codec`: it speaks as the tiny voice does, and the code of a frame tells how loud that is."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec

    def decode(self, windows: Sequence[CodecWindow], states: Sequence[object | None]) -> list[Decoded]:
        return self._codec.decode(windows, states)

    def encode(self, audio: Samples) -> Frames:
        loudness = np.abs(audio).reshape(-1, 1, HOP).mean(axis=2)
        return (loudness / _STEP).astype(np.int32) % CODES


def load(family: Family, folder: Path, device: torch.device, engine: str = AUTO) -> Codec:
    """Stands in for the family's method."""
    return ListeningCodec(SpectralCodec.load(folder, device, engine))
