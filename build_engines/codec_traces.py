"""How the codecs' networks become ONNX, by family: any number of windows, any length. What stands around them
(pulses, noise, inverse transforms) stays host code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from talkahead.errors import TalkaheadError
from talkahead.families import fsq_network
from talkahead.families.fsq_codec import FsqCodec
from talkahead.families.fsq_network import FsqNetwork
from talkahead.families.llasa.codec import Xcodec2Codec
from talkahead.families.network_file import NetworkFile
from talkahead.families.neutts.codec import NeuCodec
from talkahead.families.onnx_network import ONNXRUNTIME
from talkahead.families.openvino_network import OPENVINO
from talkahead.families.orpheus.codec import SnacCodec
from talkahead.families.phonemic import exported_decoder
from talkahead.families.phonemic.spectral_decoder import BEFORE, PITCH_BEFORE, SpectralDecoder
from torch import Tensor, nn
from torch.export import Dim

from build_engines.network_source import Trace

_CPU = torch.device("cpu")
_ROWS, _FRAMES = 2, 16


class _FlatSpectra(nn.Module):
    """The spectral decoder with its outputs in one row, as ONNX has them."""

    def __init__(self, decoder: SpectralDecoder) -> None:
        super().__init__()
        self.decoder = decoder

    def forward(self, codes: Tensor, valid: Tensor, before: Tensor) -> tuple[Tensor, ...]:
        made = self.decoder(codes, valid, before)
        return (*made.spectra, *made.pitch, made.seen)


def _spectral(version: Path) -> Trace:
    decoder = SpectralDecoder.load(version)
    config, rows = decoder.config, Dim("rows", min=1)
    length = Dim("length", min=PITCH_BEFORE + 1 + config.lookahead)
    codes = torch.zeros(_ROWS, _FRAMES, dtype=torch.int64)
    before = torch.zeros(_ROWS, config.blocks, BEFORE, config.width)
    dynamic = {"codes": {0: rows, 1: length}, "valid": {0: rows, 1: length}, "before": {0: rows}}

    def shapes(rows: int, frames: int) -> Mapping[str, tuple[int, ...]]:
        long = (rows, PITCH_BEFORE + frames + config.lookahead)
        return {"codes": long, "valid": long, "before": (rows, *before.shape[1:])}

    return Trace(_FlatSpectra(decoder), (codes, codes == 0, before), dynamic, shapes)


def _fsq(codec: type[FsqCodec]) -> Callable[[Path], Trace]:
    def trace(version: Path) -> Trace:
        codes = torch.zeros(_ROWS, _FRAMES, 1, dtype=torch.int64)
        dynamic = {"codes": {0: Dim("rows", min=1), 1: Dim("frames", min=2)}}

        def shapes(rows: int, frames: int) -> Mapping[str, tuple[int, ...]]:
            return {"codes": (rows, max(frames, 2), 1)}

        return Trace(FsqNetwork(codec(version, _CPU).decoder()), (codes,), dynamic, shapes)

    return trace


def _snac(version: Path) -> Trace:
    codec = SnacCodec.load(version, _CPU)
    codes = torch.zeros(_ROWS, _FRAMES, 7, dtype=torch.int64)
    told = codec.layout.told(
        torch.arange(_FRAMES).expand(_ROWS, -1), codec.layout.given(range(codec.hop, 3 * codec.hop), _FRAMES)
    )
    sizes = ({0: Dim.AUTO} if one.ndim == 1 else {0: Dim.AUTO, 2: Dim.AUTO} for one in told)
    dynamic = {"codes": {0: Dim.AUTO, 1: Dim.AUTO}, "told": tuple(sizes)}
    return Trace(codec.network(), (codes, *told), dynamic)


@dataclass(frozen=True)
class Limits:
    """How far an engine's audio may be from torch's in float32.

    Args:
        largest, mean: difference of a sample, over the loudest one.
        spectral_db: mean distance of spectra.
    """

    largest: float
    mean: float
    spectral_db: float


_EXACT = Limits(1e-4, 1e-5, 0.01)
_ROUNDED = (torch.bfloat16, torch.float16)


@dataclass(frozen=True)
class CodecTrace:
    """Of one family.

    Args:
        of: a vocoder's version folder.
        file: what its file is called, and its tensors.
        engines: those that run the file.
        limits: of parity, by the precision of products.
        joins_exactly: an utterance's windows join into its decode at once.
    """

    of: Callable[[Path], Trace]
    file: Callable[[Path], NetworkFile]
    engines: tuple[str, ...]
    limits: Mapping[torch.dtype, Limits]
    joins_exactly: bool = True


def _fsq_trace(codec: type[FsqCodec]) -> CodecTrace:
    limits = {torch.float32: _EXACT, **dict.fromkeys(_ROUNDED, Limits(4e-2, 4e-3, 0.2))}
    engines = (ONNXRUNTIME, OPENVINO)
    return CodecTrace(_fsq(codec), lambda _: fsq_network.NETWORK, engines, limits, joins_exactly=False)


_TRACES: Mapping[str, CodecTrace] = {
    "phonemic": CodecTrace(
        _spectral,
        lambda _: exported_decoder.NETWORK,
        (ONNXRUNTIME,),
        # The largest difference is that of a pulse which rounding puts elsewhere: 8e-4 of one utterance, 5e-3
        # of another; torch's own float32 is as far from its float64.
        {
            torch.float32: Limits(1e-2, 1e-5, 0.01),
            **dict.fromkeys(_ROUNDED, Limits(2e-2, 1e-3, 0.2)),
            torch.int8: Limits(6e-2, 3e-3, 0.5),
        },
    ),
    "llasa": _fsq_trace(Xcodec2Codec),
    "neutts": _fsq_trace(NeuCodec),
    "orpheus": CodecTrace(
        _snac,
        lambda version: SnacCodec.load(version, _CPU).layout.file,
        (ONNXRUNTIME,),
        {torch.float32: _EXACT},
    ),
}


def codec_trace(family: str) -> CodecTrace:
    """Raises TalkaheadError for a family of whose codec no engines are made."""
    if family not in _TRACES:
        raise TalkaheadError(f"family: {family!r} has no codec for engines; allowed: {', '.join(_TRACES)}")
    return _TRACES[family]
