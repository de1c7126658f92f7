"""What the server's speech is compared with: the teacher's, and the codec's copy of that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

import numpy as np
import numpy.typing as npt
import torch
from talkahead.audio.codec import Codec
from talkahead.families.contracts import CodecWindow
from talkahead.families.phonemic.spectral_codec import SpectralCodec
from talkahead.text import TextFrontend

from instruments.material import Sentence
from instruments.neural_teacher import SAMPLE_RATE as NEURAL_RATE
from instruments.recording import Recording
from instruments.teacher import SAMPLE_RATE, VOICES, Teacher
from training.code_corpus import VOICES as NEURAL_VOICES
from training.dataset import encode
from training.spectral_autoencoder import FRAME_ENCODER, SpectralAutoencoder
from training.spectral_corpus import teacher


@dataclass(frozen=True)
class Original:
    """The teacher's speech of a sentence, and the codec's copy, aligned with it; each at its own rate."""

    teacher: Recording
    copy: Recording


class Originals(Protocol):
    """A teacher and a codec that has learned from it."""

    @property
    def voices(self) -> Sequence[str]: ...

    def say(self, sentence: Sentence) -> Original: ...


class FliteOriginals:
    """Of flite's voices."""

    voices = VOICES

    def __init__(self, codec: Codec) -> None:
        self._teacher = Teacher()
        self._codec = codec

    @classmethod
    def load(cls, codec: Path) -> Self:
        return cls(Codec.load(codec))

    def say(self, sentence: Sentence) -> Original:
        audio = self._teacher.speak(sentence.words, sentence.voice).audio
        return Original(Recording.of_int16(audio, SAMPLE_RATE), resynthesize(self._codec, audio))


class NeuralOriginals:
    """Of the neural teacher's voice."""

    voices = NEURAL_VOICES

    def __init__(self, codec: SpectralAutoencoder) -> None:
        self._codec = codec.eval()
        self._speaker = SpectralCodec(codec.decoder, torch.device("cpu"))
        self._frontend = TextFrontend()

    @classmethod
    def load(cls, training: Path) -> Self:
        """What the codec's training wrote: its encoder is not served."""
        return cls(SpectralAutoencoder.load(training))

    def say(self, sentence: Sentence) -> Original:
        (segment,) = self._frontend.segments(sentence.words)
        speech = teacher().speak(segment.spoken)
        with torch.inference_mode():
            frames = self._codec.frames_of(speech)
        copy = self._speaker.decode([CodecWindow(frames, 0, len(frames), 0, position=0)], [None])[0].audio
        taught = teacher().render(speech.hidden, speech.hertz)
        return Original(Recording(taught, NEURAL_RATE), Recording(copy, NEURAL_RATE))


def load_originals(codec: Path) -> Originals:
    """Of the codec in this folder: a vocoder's, or what a training wrote."""
    return (NeuralOriginals if (codec / FRAME_ENCODER).exists() else FliteOriginals).load(codec)


def resynthesize(codec: Codec, audio: npt.NDArray[np.int16]) -> Recording:
    """The codec's own copy: the floor of what a talker on these codes can reach."""
    with torch.inference_mode():
        codes = torch.from_numpy(encode(codec, [audio])[0].astype(np.int64))
        return Recording(codec.decode(codes[None])[0].numpy(), codec.config.sample_rate_hz)
