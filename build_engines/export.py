"""Makes the codec's network an ONNX file for ONNX Runtime, and proves that it sounds the same.

Of a repository whose vocoder is the spectral codec. The network alone is exported (opset 20, any number of
windows, any length); pulses, noise and inverse transform stay host code. The file gets its name, and its
manifest, only when windows of random codes, side by side and carried on, sound as torch's float32 lets each
utterance sound at once. `configs/onnxruntime.pbtxt` of the model `vocoder` serves it:
`talkahead serve --model-config-name onnxruntime`.
"""

from __future__ import annotations

import argparse
import logging
import shutil
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import torch
from talkahead.errors import ArtifactMismatch, TalkaheadError
from talkahead.families.contracts import CodecWindow, Samples
from talkahead.families.phonemic.frontend import NAME
from talkahead.families.phonemic.onnx_decoder import (
    FILE,
    INPUTS,
    OUTPUTS,
    WEIGHTS,
    OnnxDecoder,
    engine_folder,
)
from talkahead.families.phonemic.spectral_codec import CONTEXT, SpectralCodec
from talkahead.families.phonemic.spectral_decoder import BEFORE, PITCH_BEFORE, SpectralDecoder
from talkahead.manifest import Manifest, readable_files, sha256
from talkahead.speech_format import SpeechFormat
from torch import Tensor, nn

from instruments.environment import REPOSITORY
from instruments.provenance import source_commit

OPSET = 20
_SIZES = (4, 8, 1, 25, 12)
"""New frames of the windows of an utterance."""
_UTTERANCES = 4
_CPU = torch.device("cpu")
_FULL_SCALE_DB = 20.0


@dataclass(frozen=True)
class Parity:
    """How far an engine's streamed audio is from torch's offline audio.

    Args:
        largest, mean: difference of samples, over the loudest sample.
        spectral_db: mean distance of spectra of 25 ms, where they are within 60 dB of the loudest.
    """

    largest: float
    mean: float
    spectral_db: float

    @property
    def passes(self) -> bool:
        return self.largest <= TOLERANCE.largest and self.spectral_db <= TOLERANCE.spectral_db


TOLERANCE = Parity(largest=1e-3, mean=1e-4, spectral_db=0.05)


class _Flat(nn.Module):
    """The network with its outputs in one row, as ONNX has them."""

    def __init__(self, decoder: SpectralDecoder) -> None:
        super().__init__()
        self.decoder = decoder

    def forward(self, codes: Tensor, valid: Tensor, before: Tensor) -> tuple[Tensor, ...]:
        made = self.decoder(codes, valid, before)
        return (*made.spectra, *made.pitch, made.seen)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--repository", type=Path, default=REPOSITORY, help="whose vocoder is meant (%(default)s)"
    )


def run(options: argparse.Namespace) -> None:
    """Raises TalkaheadError where there is no such codec, or where the file sounds different."""
    version: Path = options.repository / "vocoder" / "1"
    if not (version / "codec.json").exists() or SpeechFormat.read(version).family != NAME:
        raise TalkaheadError(f"{version} holds no spectral codec, the only one whose network can be exported")
    decoder = SpectralDecoder.load(version)
    with tempfile.TemporaryDirectory(dir=version) as folder:
        path = Path(folder) / FILE
        print("export: tracing the network")
        write(decoder, path)
        print("export: comparing with torch")
        parity = compare(decoder, OnnxDecoder(path, decoder.config, threads=1))
        print(f"export: {parity}")
        if not parity.passes:
            raise ArtifactMismatch(f"{FILE} does not sound like torch: {parity}; allowed: {TOLERANCE}")
        _keep(version, path, parity)
    print(f"export: {engine_folder(version)}")


def write(decoder: SpectralDecoder, path: Path) -> None:
    """The network with any number of rows B and any length L."""
    config = decoder.config
    rows = torch.export.Dim("rows", min=1)
    length = torch.export.Dim("length", min=PITCH_BEFORE + 1 + config.lookahead)
    codes = torch.zeros(2, 16, dtype=torch.int64)
    before = torch.zeros(2, config.blocks, BEFORE, config.width)
    logging.getLogger("torch.onnx._internal.exporter").setLevel(logging.ERROR)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # of the exporter, on its own parts
        torch.onnx.export(
            _Flat(decoder).eval(),
            (codes, codes == 0, before),
            path,
            input_names=list(INPUTS),
            output_names=list(OUTPUTS),
            dynamic_shapes={
                "codes": {0: rows, 1: length}, "valid": {0: rows, 1: length}, "before": {0: rows},
            },
            opset_version=OPSET,
            dynamo=True,
            external_data=False,
            verbose=False,
        )  # fmt: skip
    onnx.checker.check_model(path, full_check=True)


def compare(decoder: SpectralDecoder, network: OnnxDecoder) -> Parity:
    """The engine in windows, utterances side by side, against torch's decode of each at once."""
    draw = np.random.default_rng(0)
    utterances = draw.integers(0, decoder.config.num_codes, (_UTTERANCES, sum(_SIZES), 1))
    streamed = _streamed(SpectralCodec(network, _CPU), utterances, decoder.config.lookahead_frames)
    offline = _offline(SpectralCodec(decoder, _CPU), utterances)
    apart, loudest = np.abs(streamed - offline), np.abs(offline).max()
    return Parity(
        float(apart.max() / loudest),
        float(apart.mean() / loudest),
        _spectral_distance(streamed, offline, decoder.config.hop),
    )


def _streamed(codec: SpectralCodec, utterances: npt.NDArray[np.int64], lookahead: int) -> Samples:
    """[utterances, samples]"""
    carries: Sequence[object | None] = [None] * len(utterances)
    parts, start = [], 0
    for new in _SIZES:
        context = min(CONTEXT, start)
        beyond = min(start + new + lookahead, utterances.shape[1])
        windows = [
            CodecWindow(frames[start - context : beyond], context, new, beyond - start - new, start)
            for frames in utterances
        ]
        decoded = codec.decode(windows, carries)
        carries = [one.carry for one in decoded]
        parts.append(np.stack([one.audio for one in decoded]))
        start += new
    return np.concatenate(parts, axis=1)


def _offline(codec: SpectralCodec, utterances: npt.NDArray[np.int64]) -> Samples:
    whole = [CodecWindow(frames, 0, len(frames), 0, 0) for frames in utterances]
    return np.stack([codec.decode([window], [None])[0].audio for window in whole])


def _spectral_distance(one: Samples, other: Samples, size: int) -> float:
    levels = [
        np.log10(np.abs(np.fft.rfft(audio.reshape(-1, size) * np.hanning(size))) + 1e-9)
        for audio in (one, other)
    ]
    heard = levels[1] > levels[1].max() - 3.0
    return float(_FULL_SCALE_DB * np.abs(levels[0] - levels[1])[heard].mean())


def _keep(version: Path, path: Path, parity: Parity) -> None:
    folder = engine_folder(version)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    shutil.move(path, folder / FILE)
    source = Manifest.read(version)
    Manifest(
        command=f"python -m build_engines export --repository {version.parent.parent}",
        source_commit=source_commit(),
        data=f"{version / WEIGHTS}; torch {torch.__version__}, onnx {onnx.__version__}, opset {OPSET}",
        steps=source.steps,
        metrics=asdict(parity),
        files=readable_files([folder / FILE]),
        licence=source.licence,
        target=sha256(version / WEIGHTS),
    ).write(folder)
