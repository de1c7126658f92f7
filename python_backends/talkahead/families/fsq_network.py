"""What speaks of XCodec2's kind, as one network, and what hears, as another. The inverse transform and the
quantizer around them stay host code.

Shapes: B windows, W frames, S numbers of a frame's spectrum, N samples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from talkahead.families.network_file import NetworkFile

if TYPE_CHECKING:
    from transformers import NeuCodecModel, Xcodec2Model

    FsqModel = Xcodec2Model | NeuCodecModel

NETWORK = NetworkFile("codec.onnx", "model.safetensors", ("codes",), ("spectra",))

LISTENER = NetworkFile(
    "listener.onnx",
    "model.safetensors",
    ("audio", "features"),
    ("acoustic", "semantic"),
    folder="onnx-listener",
    made_as="listener",
)


class FsqNetwork(nn.Module):
    """Of a library's model, whose decoder it takes apart. `forward`: codes int64 [B, W, 1] to spectra
    [B, W, S]: logarithms of magnitudes, then phases."""

    precision = torch.float32

    def __init__(self, model: FsqModel) -> None:
        super().__init__()
        self.quantizer, self.decoder = model.quantizer, model.acoustic_decoder
        self.decoder.head = cast(Any, self.decoder.head.linear)

    def forward(self, codes: Tensor) -> tuple[Tensor]:
        return (self.decoder(self.quantizer.from_codes(codes)),)


class FsqListener(nn.Module):
    """Of a library's model. `forward`: a recording [1, 1, N] and its features [1, W, 160] to what is heard of
    either, [1, D, W]; the first may be a frame longer or shorter."""

    precision = torch.float32

    def __init__(self, model: FsqModel) -> None:
        super().__init__()
        self.acoustic, self.semantic = model.acoustic_encoder, model.semantic_encoder
        self.adapter = model.semantic_adapter

    def forward(self, audio: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.semantic(features).last_hidden_state
        return self.acoustic(audio), self.adapter(hidden.mT)
