"""The spectral decoder's network in one C call (`native/network.c`): what serves on CPUs.

A frame's spectra are bitwise the same however an utterance is cut and whatever is decoded beside it.
Products of the blocks and of the log-magnitudes are of the precision that is asked for, the others of
float32.
"""

from __future__ import annotations

from ctypes import byref
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from talkahead.backbone.arena import Arena
from talkahead.backbone.native_decoder import decoder_library, has_tiles, refuse_uneven
from talkahead.backbone.native_matrix import MatrixPacker
from talkahead.families.phonemic.native_layers import (
    Block,
    native_block,
    native_linear,
    native_norm,
    usual_precision,
)
from talkahead.families.phonemic.spectral_decoder import (
    BEFORE,
    PITCH_BEFORE,
    SUBFRAMES,
    NetworkOutput,
    Pitch,
    Spectra,
    SpectralDecoder,
)
from talkahead.native_declarations import native_struct
from talkahead.native_library import load_library

SOURCE = Path(__file__).parent / "native" / "network.c"
_Network, _Windows = (native_struct(SOURCE, name) for name in ("network", "windows"))
_MAGNITUDES = len(Spectra._fields) - 1
"""Of the parts of a spectrum; the other one are phases."""


class NativeNetwork:
    """A `SpectralNetwork` on one thread of a CPU.

    Raises NativeUnavailable where it cannot be compiled, or a size does not fill vectors.

    Args:
        decoder: whose weights these are.
        precision: of products, one that the CPU `can_multiply`; None: the `usual_precision`.
    """

    dtype = torch.float32

    def __init__(self, decoder: SpectralDecoder, precision: torch.dtype | None = None) -> None:
        precision = precision or usual_precision()
        self.config = config = decoder.config
        refuse_uneven({name: getattr(config, name) for name in ("width", "inner", "hidden", "pitch_width")})
        self.precision = precision
        self._levels = decoder.quantizer.levels.contiguous()
        self._library = load_library(SOURCE)
        self._rounded, self._exact = (
            MatrixPacker(decoder_library(), one, in_tiles=has_tiles()) for one in (precision, torch.float32)
        )
        self._blocks = (Block * config.blocks)(*map(partial(native_block, self._rounded), decoder.blocks))
        rest, spectra = _MAGNITUDES * config.bins, decoder.spectra
        self._network = _Network(
            told=len(config.levels) + 1,
            lookahead=config.lookahead,
            width=config.width,
            inner=config.inner,
            count=config.blocks,
            hidden=config.hidden,
            pitch_width=config.pitch_width,
            levels=self._levels.data_ptr(),
            entering=2 if precision is torch.bfloat16 else 1,
            inward=native_linear(self._exact, decoder.inward),
            blocks=self._blocks,
            norm=native_norm(self._exact, decoder.norm),
            outward=native_linear(self._exact, decoder.outward),
            magnitudes=self._rounded.pack(spectra.weight[:rest], spectra.bias[:rest]),
            phases=self._exact.pack(spectra.weight[rest:], spectra.bias[rest:]),
            pitch_inward=native_linear(self._exact, decoder.pitch_inward),
            pitch_outward=native_linear(self._exact, decoder.pitch_outward),
        )
        self._memory = Arena().take(self._library.talkahead_network_bytes(byref(self._network)))

    def __call__(self, codes: Tensor, valid: Tensor, before: Tensor) -> NetworkOutput:
        config, codes, valid, before = self.config, *map(Tensor.contiguous, (codes, valid, before))
        count, frames = len(codes), codes.shape[1] - PITCH_BEFORE - config.lookahead
        made = {
            "magnitudes": torch.empty(count, SUBFRAMES * frames, _MAGNITUDES * config.bins),
            "phases": torch.empty(count, SUBFRAMES * frames, config.bins),
            "pitch": torch.empty(count, frames + 1, SUBFRAMES, len(Pitch._fields)),
            "seen": torch.empty(count, config.blocks, BEFORE + frames, config.width),
        }
        addresses = {
            name: one.data_ptr()
            for name, one in {"codes": codes, "valid": valid, "before": before, **made}.items()
        }
        windows = _Windows(count=count, frames=frames, **addresses)
        self._library.talkahead_run_network(byref(self._network), self._memory.data_ptr(), byref(windows))
        voice, breath, rest = made["magnitudes"].chunk(_MAGNITUDES, dim=-1)
        spectra = Spectra(voice, breath, rest, made["phases"])
        return NetworkOutput(spectra, Pitch(*made["pitch"].flatten(1, 2).unbind(-1)), made["seen"])
