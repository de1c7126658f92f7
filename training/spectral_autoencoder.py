"""The spectral codec as it is trained: what the teacher's decoder is told, to codes, to what it makes of it.

The encoder reads the teacher's own description of a frame, not audio: recordings cannot be encoded.

Shapes: B rows, T frames, S = 2 T subframes, C code dimensions.
"""

from __future__ import annotations

from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt
import torch
from safetensors.torch import save_file
from talkahead.families.phonemic.quantizer import Quantizer
from talkahead.families.phonemic.spectral_decoder import (
    BEFORE,
    PITCH_AFTER,
    PITCH_BEFORE,
    Pitch,
    SpectralConfig,
    SpectralDecoder,
    description_of,
)
from talkahead.text.symbols import NUM_SYMBOLS
from talkahead.weights import load_float32
from torch import Tensor, nn
from torch.nn import functional

from instruments.neural_teacher import Description
from instruments.setting import decoder_folder

FRAME_ENCODER = "frame_encoder.safetensors"
_PROSODY_NEIGHBOURS = 1
SOUND_FEATURES, PROSODY_FEATURES = 128, 4
"""Of a frame: features of what is spoken; pitch and energy of both subframes."""


class FrameEncoder(nn.Module):
    """Sounds [B, T, 128] and prosody [B, T, 4] to latents [B, T, C] of the decoder's quantiser.

    A sound's latents depend on its frame alone, so that they change only where the teacher goes on to the
    next sound: a talker predicts them easily. Those of prosody see a frame to either side.
    """

    def __init__(self, config: SpectralConfig, width: int = 256) -> None:
        super().__init__()
        self.sound = _perceptron(SOUND_FEATURES, width, len(config.sound_levels))
        seen = PROSODY_FEATURES * (2 * _PROSODY_NEIGHBOURS + 1)
        self.prosody = _perceptron(seen, width, len(config.prosody_levels))

    def forward(self, sounds: Tensor, prosody: Tensor) -> Tensor:
        around = functional.pad(prosody, (0, 0, _PROSODY_NEIGHBOURS, _PROSODY_NEIGHBOURS))
        side_by_side = around.unfold(1, 2 * _PROSODY_NEIGHBOURS + 1, 1).flatten(2)
        return torch.cat([self.sound(sounds), self.prosody(side_by_side)], dim=-1)


def _perceptron(inputs: int, width: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, width), nn.GELU(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, outputs)
    )


class SpectralAutoencoder(nn.Module):
    """Encoder and decoder, and a reader of symbols, of which nothing is kept: it teaches the encoder alone.

    `head` is the teacher's last layer, [256, 4 * 601] and [4 * 601], which the decoder takes over as it is.
    """

    def __init__(self, config: SpectralConfig, head: tuple[Tensor, Tensor] | None = None) -> None:
        super().__init__()
        self.encoder = FrameEncoder(config)
        self.decoder = SpectralDecoder(config)
        self.sounds = Quantizer(config.sound_levels)
        self.reader = _perceptron(len(config.sound_levels), 128, NUM_SYMBOLS)
        self.decoder.spectra.requires_grad_(False)
        if head is not None:
            self.decoder.spectra.weight.data.copy_(head[0].T)
            self.decoder.spectra.bias.data.copy_(head[1])

    def forward(self, latents: Tensor, valid: Tensor) -> tuple[Tensor, Pitch]:
        """The encoder's latents [B, T, C] of whole utterances, valid [B, T], to the hidden values [B, S, 256]
        and pitch of all subframes."""
        return self.made_of(description_of(self.decoder.quantizer(latents), valid))

    def read(self, latents: Tensor) -> Tensor:
        """Which symbol a frame is of, by the sound of its code alone: logits [..., symbols] of latents
        [..., C], or of those of the sound alone, which come first."""
        read: Tensor = self.reader(self.sounds(latents[..., : len(self.sounds.levels)]))
        return read

    def made_of(self, described: Tensor) -> tuple[Tensor, Pitch]:
        """Of descriptions [B, T, C + 1] of whole utterances."""
        config = self.decoder.config
        before = described.new_zeros(len(described), config.blocks, BEFORE, config.width)
        hidden, _ = self.decoder.hidden(functional.pad(described, (0, 0, 0, config.lookahead)), before)
        around = functional.pad(described, (0, 0, PITCH_BEFORE, PITCH_AFTER))
        return hidden, self.decoder.pitch_of(around)

    def save(self, folder: Path) -> None:
        """Writes the decoder into `codec`, as the server loads it, and the frame encoder beside it."""
        self.decoder.save(folder / "codec")
        save_file(self.encoder.state_dict(), folder / FRAME_ENCODER)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Reads what `save` wrote, as float32; of the shipped codec its encoder's folder."""
        decoder = SpectralDecoder.load(decoder_folder(folder))
        codec = cls(decoder.config)
        codec.decoder.load_state_dict(decoder.state_dict())
        codec.encoder.load_state_dict(load_float32(folder / FRAME_ENCODER))
        return codec

    def frames_of(self, told: Description) -> npt.NDArray[np.int64]:
        """Frames [F, 1] of a segment as the teacher describes it."""
        sounds = torch.from_numpy(told.phones)[None]
        prosody = torch.from_numpy(told.prosody).reshape(1, -1, PROSODY_FEATURES)
        frames: npt.NDArray[np.int64] = self.encode(sounds, prosody)[0, :, None].numpy()
        return frames

    def encode(self, sounds: Tensor, prosody: Tensor) -> Tensor:
        """Codes int64 [B, T]."""
        return self.decoder.quantizer.encode(self.encoder(sounds, prosody))
