"""XCodec2, and its causal variant, which `"causal": true` in config.json names (XCodec2-S of Llasa+)."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from torch import Tensor, nn

from talkahead.families.contracts import Samples
from talkahead.families.fsq_codec import FsqCodec, semantic_features


class Xcodec2Codec(FsqCodec):
    """Codec of the family `llasa`.

    The causal variant attends to the past only, and its residual blocks see a frame at a time. It is not
    exact by windows either: its norms are over all of a window's time, and three frames to the right
    reach into its first convolution.
    """

    family = "llasa"
    model_name = "Xcodec2Model"

    @property
    def sample_rate_hz(self) -> int:
        return int(self.config.sampling_rate)

    def _heard(self, audio: Samples) -> tuple[Samples, Tensor]:
        padded = np.pad(audio, (0, self.hop))
        return padded, semantic_features(np.pad(padded, self.hop // 2))

    def _shape_decoder(self, decoder: nn.Module) -> None:
        if getattr(self.config, "causal", False):
            _make_causal(decoder)


convert_weights, load_codec = Xcodec2Codec.convert, Xcodec2Codec.load


def _make_causal(decoder: nn.Module) -> None:
    """Attention looks back only, and the residual blocks' convolutions, alone of three taps, get one."""
    for part in list(decoder.modules()):
        if hasattr(part, "is_causal"):
            cast(Any, part).is_causal = True
        for name, conv in list(part.named_children()):
            if isinstance(conv, nn.Conv1d) and conv.kernel_size == (3,):
                setattr(part, name, nn.Conv1d(conv.in_channels, conv.out_channels, kernel_size=1))
