"""The spectral codec's network: how it becomes ONNX, and how its audio is compared with torch's.

The network alone is exported (any number of windows, any length); pulses, noise and inverse transform stay
host code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import torch
from talkahead.backbone.decoder_choice import Precision
from talkahead.families.contracts import AUTO, Codec, CodecWindow, Samples
from talkahead.families.onnx_network import NetworkFile, OnnxNetwork
from talkahead.families.phonemic.frontend import NAME
from talkahead.families.phonemic.native_network import NATIVE
from talkahead.families.phonemic.onnx_decoder import NETWORK, OnnxDecoder
from talkahead.families.phonemic.spectral_codec import SpectralCodec
from talkahead.families.phonemic.spectral_decoder import BEFORE, PITCH_BEFORE, SpectralDecoder
from talkahead.families.registry import load_family
from talkahead.speech_format import SpeechFormat
from torch import Tensor, nn
from torch.export import Dim

from build_engines.engine_source import cpu_precision, version_folder
from build_engines.figures import Figure, Parity, apart
from build_engines.onnx_file import write_onnx
from build_engines.spoken_frames import spoken_frames

_SIZES = (4, 8, 1, 25, 12)
"""New frames of the windows of an utterance, over and over."""
_LIMITS = {Precision.FLOAT32: (5e-3, 1e-5, 0.01), Precision.BFLOAT16: (2e-2, 1e-3, 0.2)}
"""Largest and mean difference, and distance of spectra, by the precision of products. The largest is that of
a pulse which rounding puts elsewhere: torch's own float32 is up to 8e-4 from its float64."""
_STREAMED_LIMIT = 1e-3
_FULL_SCALE_DB = 20.0
_CPU = torch.device("cpu")

Utterances = npt.NDArray[np.int64]
"""[utterances, F, C]"""


class _Flat(nn.Module):
    """The network with its outputs in one row, as ONNX has them."""

    def __init__(self, decoder: SpectralDecoder) -> None:
        super().__init__()
        self.decoder = decoder

    def forward(self, codes: Tensor, valid: Tensor, before: Tensor) -> tuple[Tensor, ...]:
        made = self.decoder(codes, valid, before)
        return (*made.spectra, *made.pitch, made.seen)


@dataclass(frozen=True)
class CodecNetwork:
    """The `EngineSource` of the model `vocoder`."""

    repository: Path

    file: ClassVar[NetworkFile] = NETWORK

    @property
    def version(self) -> Path:
        return version_folder(self.repository, "vocoder")

    def write(self, path: Path) -> None:
        decoder = SpectralDecoder.load(self.version)
        config, rows = decoder.config, Dim("rows", min=1)
        length = Dim("length", min=PITCH_BEFORE + 1 + config.lookahead)
        codes = torch.zeros(2, 16, dtype=torch.int64)
        before = torch.zeros(2, config.blocks, BEFORE, config.width)
        dynamic = {"codes": {0: rows, 1: length}, "valid": {0: rows, 1: length}, "before": {0: rows}}
        write_onnx(_Flat(decoder), (codes, codes == 0, before), dynamic, self.file, path)

    def parity_of_file(self, path: Path) -> Parity:
        decoder = SpectralDecoder.load(self.version)
        network = OnnxDecoder(OnnxNetwork(path, self.file, threads=1), decoder.config)
        return self._parity(SpectralCodec(network, _CPU), Precision.FLOAT32)

    def parity(self, engine: str) -> Parity:
        return self._parity(
            load_family(NAME).codec(self.version, _CPU, engine), cpu_precision(engine in (AUTO, NATIVE))
        )

    def _parity(self, codec: Codec, precision: Precision) -> Parity:
        reference, speech = SpectralDecoder.load(self.version), SpeechFormat.read(self.version)
        spoken = spoken_frames(self.repository)
        return compare(codec, SpectralCodec(reference, _CPU), speech, spoken, precision)


def compare(
    codec: Codec, reference: Codec, speech: SpeechFormat, utterances: Utterances, precision: Precision
) -> Parity:
    """A codec in windows, utterances side by side, against another's decode of each at once."""
    largest, mean, spectral_db = _LIMITS[precision]
    streamed = _streamed(codec, utterances, speech)
    offline = _offline(codec, utterances)
    expected = _offline(reference, utterances)
    found_largest, found_mean = apart(streamed, expected)
    return Parity(
        (
            Figure("largest", "largest difference of a sample, over the loudest", found_largest, largest),
            Figure("mean", "mean difference of a sample, over the loudest", found_mean, mean),
            Figure(
                "spectral_db",
                "mean distance of spectra of 25 ms in dB, within 60 dB of the loudest",
                _spectral_distance(streamed, expected, speech.hop),
                spectral_db,
            ),
            Figure(
                "streamed",
                "largest difference of its windows from its own decode at once",
                apart(streamed, offline)[0],
                _STREAMED_LIMIT,
            ),
        )
    )


def _streamed(codec: Codec, utterances: Utterances, speech: SpeechFormat) -> Samples:
    """[utterances, samples]"""
    carries: Sequence[object | None] = [None] * len(utterances)
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
        decoded = codec.decode(windows, carries)
        carries = [one.carry for one in decoded]
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
