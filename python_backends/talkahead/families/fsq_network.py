"""What speaks of XCodec2's kind, as one network; its inverse transform stays host code.

Shapes: B windows, W frames, S numbers of a frame's spectrum.
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
