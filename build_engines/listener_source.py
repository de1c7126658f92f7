"""What imported codecs hear recordings with: how it becomes ONNX, and how it is compared with torch's.

That of XCodec2's kind is two thirds of the codec's weights. SNAC's is small and stays torch's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from talkahead.errors import TalkaheadError
from talkahead.families.contracts import TORCH, Samples, require_engine
from talkahead.families.fsq_codec import FsqCodec
from talkahead.families.fsq_network import LISTENER, FsqListener
from talkahead.families.llasa.codec import Xcodec2Codec
from talkahead.families.network_file import NetworkFile
from talkahead.families.neutts.codec import NeuCodec
from talkahead.families.onnx_network import ONNXRUNTIME
from torch.export import Dim

from build_engines.figures import Figure, Parity, apart
from build_engines.network_source import Trace, family_of, version_folder

LISTENERS: Mapping[str, type[FsqCodec]] = {"llasa": Xcodec2Codec, "neutts": NeuCodec}
"""Codecs that have one, by family."""
_LARGEST, _MEAN = 1e-3, 1e-5
_CPU = torch.device("cpu")
_FRAMES = 16
_SECONDS = 2.0


@dataclass(frozen=True)
class ListenerSource:
    """The `NetworkSource` of a codec's encoder, which the model `encoder` runs."""

    repository: Path

    file: ClassVar[NetworkFile] = LISTENER
    engines: ClassVar[tuple[str, ...]] = (ONNXRUNTIME,)

    @property
    def version(self) -> Path:
        return version_folder(self.repository, "vocoder")

    def at(self, repository: Path) -> ListenerSource:
        return ListenerSource(repository)

    def trace(self) -> Trace:
        """Raises TalkaheadError where the codec hears nothing."""
        codec = self._codec(TORCH)
        if not codec.can_encode:
            raise TalkaheadError(f"{self.version} holds no whole encoder, of which a file could be made")
        hop = codec.encoder_hop
        audio, features = torch.zeros(1, 1, _FRAMES * hop), torch.zeros(1, _FRAMES, codec.num_features)
        dynamic = {"audio": {2: hop * Dim("heard", min=4)}, "features": {1: Dim("frames", min=4)}}
        return Trace(FsqListener(codec.encoder()), (audio, features), dynamic)

    def parity(self, engine: str) -> Parity:
        """Of what both encoders hear of noise that swells and fades."""
        require_engine(engine, (*self.engines, TORCH), _CPU.type, "this listener")
        codec, reference = self._codec(engine), self._codec(TORCH)
        recording = _recording(reference.sample_rate_hz)
        pairs = [
            apart(one.numpy(), other.numpy())
            for one, other in zip(codec.hear(recording), reference.hear(recording), strict=True)
        ]
        largest, mean = (max(found) for found in zip(*pairs, strict=True))
        return Parity(
            (
                Figure("largest", "largest difference of a number, over the largest", largest, _LARGEST),
                Figure("mean", "mean difference of a number, over the largest", mean, _MEAN),
            )
        )

    def _codec(self, engine: str) -> FsqCodec:
        family = family_of(self.repository)
        if family not in LISTENERS:
            raise TalkaheadError(
                f"family: {family!r} hears with no network that engines are made of; allowed: "
                f"{', '.join(LISTENERS)}"
            )
        return LISTENERS[family].load(self.version, _CPU, engine)


def _recording(rate_hz: int) -> Samples:
    count = int(_SECONDS * rate_hz)
    swell = 0.1 * (1.0 - np.cos(np.linspace(0.0, 8.0 * np.pi, count)))
    noise = np.random.default_rng(1).standard_normal(count)
    return np.asarray(swell * noise, np.float32)
