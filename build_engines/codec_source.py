"""The codecs: how their audio is compared with torch's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from talkahead.errors import ArtifactMismatch
from talkahead.families.contracts import TORCH, Codec, CodecWindow, Samples
from talkahead.families.network_file import NetworkFile
from talkahead.families.registry import load_family
from talkahead.families.tensorrt_network import TENSORRT, Gpu
from talkahead.speech_format import SpeechFormat

from build_engines.codec_traces import CodecTrace, codec_trace
from build_engines.figures import Figure, Parity, apart
from build_engines.network_source import Trace, family_of, version_folder
from build_engines.parity_material import frames_of

_SIZES = (4, 8, 1, 25, 12)
"""New frames of the windows of an utterance, over and over."""
_STREAMED_LIMIT = 1e-3
_FULL_SCALE_DB = 20.0
_CPU = torch.device("cpu")

Utterances = npt.NDArray[np.int64]
"""[utterances, F, C]"""


@dataclass(frozen=True)
class CodecSource:
    """The `NetworkSource` of the model `vocoder`."""

    repository: Path

    @property
    def version(self) -> Path:
        return version_folder(self.repository, "vocoder")

    @property
    def file(self) -> NetworkFile:
        return self._trace.file(self.version)

    @property
    def engines(self) -> Sequence[str]:
        return self._trace.engines

    @property
    def _trace(self) -> CodecTrace:
        return codec_trace(family_of(self.repository))

    def at(self, repository: Path) -> CodecSource:
        return CodecSource(repository)

    def trace(self) -> Trace:
        return self._trace.of(self.version)

    def parity(self, engine: str) -> Parity:
        family, speech = load_family(family_of(self.repository)), SpeechFormat.read(self.version)
        device = _gpu() if engine == TENSORRT else _CPU
        codec, reference = family.codec(self.version, device, engine), family.codec(self.version, _CPU, TORCH)
        return compare(codec, reference, speech, frames_of(self.repository), self._trace)


def _gpu() -> torch.device:
    if Gpu.here() is None:
        raise ArtifactMismatch(f"engine: {TENSORRT} runs on a GPU, and torch sees none here")
    return torch.device("cuda:0")


def compare(
    codec: Codec, reference: Codec, speech: SpeechFormat, utterances: Utterances, trace: CodecTrace
) -> Parity:
    """A codec in windows, utterances side by side, against another's decode of each at once; where windows do
    not join into that, against the other's windows."""
    limits, streamed = trace.limits[codec.precision], _streamed(codec, utterances, speech)
    offline = trace.joins_exactly
    expected = _offline(reference, utterances) if offline else _streamed(reference, utterances, speech)
    found_largest, found_mean = apart(streamed, expected)
    figures = [
        Figure("largest", "largest difference of a sample, over the loudest", found_largest, limits.largest),
        Figure("mean", "mean difference of a sample, over the loudest", found_mean, limits.mean),
        Figure(
            "spectral_db",
            "mean distance of spectra in dB, frame by frame, within 60 dB of the loudest",
            _spectral_distance(streamed, expected, speech.hop),
            limits.spectral_db,
        ),
    ]
    if offline:
        own = apart(streamed, _offline(codec, utterances))[0]
        about = "largest difference of its windows from its own decode at once"
        figures.append(Figure("streamed", about, own, _STREAMED_LIMIT))
    return Parity(figures)


def _streamed(codec: Codec, utterances: Utterances, speech: SpeechFormat) -> Samples:
    """[utterances, samples]"""
    states: Sequence[object | None] = [None] * len(utterances)
    parts: list[Samples] = []
    start, total = 0, utterances.shape[1]
    for size in cycle(_SIZES):
        if start == total:
            break
        new, context = min(size, total - start), min(speech.context_frames, start)
        beyond = min(start + new + speech.lookahead_frames, total)
        windows = [
            CodecWindow(frames[start - context : beyond], context, new, beyond - start - new, start)
            for frames in utterances
        ]
        decoded = codec.decode(windows, states)
        states = [one.state for one in decoded]
        parts.append(np.stack([one.audio for one in decoded]))
        start += new
    return np.concatenate(parts, axis=1)


def _offline(codec: Codec, utterances: Utterances) -> Samples:
    return np.stack([codec.decode([CodecWindow.whole(frames)], [None])[0].audio for frames in utterances])


def _spectral_distance(one: Samples, other: Samples, size: int) -> float:
    levels = [
        np.log10(np.abs(np.fft.rfft(audio.reshape(-1, size) * np.hanning(size))) + 1e-9)
        for audio in (one, other)
    ]
    heard = levels[1] > levels[1].max() - 3.0
    return float(_FULL_SCALE_DB * np.abs(levels[0] - levels[1])[heard].mean())
