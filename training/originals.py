"""What the server's speech is compared with: the teacher's, and the codec's copy of that."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

import torch
from talkahead.families.contracts import CodecWindow
from talkahead.families.phonemic.spectral_codec import SpectralCodec
from talkahead.text import TextFrontend

from instruments.neural_teacher import heard
from instruments.recording import Recording
from training.spectral_autoencoder import SpectralAutoencoder
from training.spectral_corpus import teacher


@dataclass(frozen=True)
class Original:
    """The teacher's speech of some words, and the codec's copy, aligned with it. Both begin where a server's
    speech does, behind the frames that are not heard."""

    teacher: Recording
    copy: Recording


class Originals:
    """A teacher and a codec that has learned from it."""

    def __init__(self, codec: SpectralAutoencoder) -> None:
        self._codec = codec.eval()
        self._speaker = SpectralCodec(codec.decoder, torch.device("cpu"))
        self._frontend = TextFrontend()

    @classmethod
    def load(cls, training: Path) -> Self:
        """What the codec's training wrote: its encoder is not served."""
        return cls(SpectralAutoencoder.load(training))

    def say(self, words: str) -> Original:
        """Words that are one segment."""
        (segment,) = self._frontend.segments(words)
        speech = teacher().speak(segment.spoken)
        with torch.inference_mode():
            frames = self._codec.frames_of(speech)
        (copy,) = self._speaker.decode([CodecWindow.whole(frames)], [None])
        return Original(*map(heard, (teacher().render(speech.hidden, speech.hertz), copy.audio)))
