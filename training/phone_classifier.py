"""Hears which phone is being spoken, ten milliseconds at a time: a judge of what a codec keeps of speech.

Spectral losses weigh a burst that tells a "t" from a "k" by its energy, which is nothing beside a vowel's.
The distance between what a classifier of phones makes of a recording and of its copy weighs it by what it
tells: a perceptual loss, after Johnson et al. 2016, with phones in place of objects.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

import torch
from safetensors.torch import load_file, save_file
from talkahead.audio.codec import FrameBlock
from talkahead.audio.mel import LogMel
from torch import Tensor, nn
from torch.nn import functional

HOP = 160
"""Samples of the frames that are told apart, at 16 kHz."""
NUM_PHONES = 64
"""Room for the teacher's phones."""
_WIDTH, _BLOCKS, _AROUND = 160, 4, 2
_TEMPERATURE = 3.0


@dataclass(frozen=True)
class Hearing:
    """Scores of the phones [B, T, NUM_PHONES], and the layers' outputs [B, T, D] on the way there."""

    scores: Tensor
    features: tuple[Tensor, ...]


class PhoneClassifier(nn.Module):
    """audio [B, T * HOP] -> Hearing. A frame is heard with 80 ms on either side: no words, only sounds."""

    def __init__(self) -> None:
        super().__init__()
        self.mel = LogMel(num_fft=512, hop=HOP)
        self.inward = nn.Linear(80, _WIDTH)
        self.blocks = nn.ModuleList(FrameBlock(_WIDTH, 2 * _WIDTH, _AROUND, _AROUND) for _ in range(_BLOCKS))
        self.outward = nn.Linear(_WIDTH, NUM_PHONES)

    def forward(self, audio: Tensor) -> Hearing:
        mel = (self.mel(audio) + 4.0) / 3.0
        mask = mel.new_ones(*mel.shape[:2], 1)
        frames = self.inward(mel)
        features = []
        for block in self.blocks:
            frames = block(frames, mask)
            features.append(frames)
        return Hearing(self.outward(frames), tuple(features))

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file(self.state_dict(), path)

    @classmethod
    def load(cls, path: Path) -> Self:
        """What `save` wrote, frozen."""
        classifier = cls()
        classifier.load_state_dict(load_file(path))
        return classifier.eval().requires_grad_(False)


def hearing_distance(real: Hearing, made: Hearing) -> Tensor:
    """Nats a frame that the copy's phones are off (KL), and the L1 of the layers relative to their size.

    Phones are compared at a temperature: as they are, frames that are mistaken for sure outweigh all others.
    """
    heard = (real.scores.float() / _TEMPERATURE).log_softmax(-1).detach()
    told = (made.scores.float() / _TEMPERATURE).log_softmax(-1)
    nats = functional.kl_div(told, heard, log_target=True, reduction="none").sum(-1).mean()
    layers = [
        functional.l1_loss(ours.float(), theirs.float().detach()) / theirs.float().detach().abs().mean()
        for theirs, ours in zip(real.features, made.features, strict=True)
    ]
    return nats + torch.stack(layers).mean()
