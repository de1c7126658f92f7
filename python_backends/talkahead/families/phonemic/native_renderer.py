"""The spectral codec's renderer on CPUs: two transforms by torch, and what stands around them in C
(`native/renderer.c`)."""

from __future__ import annotations

from collections.abc import Mapping
from ctypes import byref
from pathlib import Path

import torch
from torch import Tensor

from talkahead.audio.noise import Noise
from talkahead.backbone.native_decoder import VECTOR
from talkahead.families.phonemic.spectral_decoder import Spectra, SpectralConfig
from talkahead.families.phonemic.spectral_renderer import HIGHEST_HZ, LOUDEST, Renderer, Tail
from talkahead.native_declarations import native_struct
from talkahead.native_library import load_library

SOURCE = Path(__file__).parent / "native" / "renderer.c"
_Renderer, _Runs, _Tail = (native_struct(SOURCE, name) for name in ("renderer", "runs", "tail"))


class NativeRenderer(Renderer):
    """A `Renderer` in float32 on one thread of a CPU. Raises NativeUnavailable where it is not compiled."""

    def __init__(self, config: SpectralConfig, noise: Noise, speed: float = 1.0) -> None:
        super().__init__(config, noise, speed)
        self._library = load_library(SOURCE)
        self._native = _Renderer(
            hop=self.hop,
            size=self.size,
            spectrum=self.bins_size,
            rate=self.rate_hz,
            highest=HIGHEST_HZ,
            loudest=LOUDEST,
            heard=self.heard.data_ptr(),
            shown=self.shown.data_ptr(),
            noise=noise.table.data_ptr(),
        )

    def forward(self, spectra: Spectra, hertz: Tensor, tail: Tail, frames: Tensor) -> tuple[Tensor, Tail]:
        count, subframes = spectra.voice.shape[:2]
        samples = subframes * self.hop
        hertz, tail = hertz.contiguous(), Tail(*(part.contiguous() for part in tail))
        after = Tail(*map(torch.empty_like, tail))
        room = {
            "samples": torch.empty(self.size - self.hop + samples),
            "turns": torch.empty(samples + VECTOR),
            "steps": torch.empty(samples + VECTOR),
        }
        runs = _Runs(
            count=count,
            subframes=subframes,
            frames=frames.data_ptr(),
            hertz=hertz.data_ptr(),
            **_addresses(spectra._asdict()),
            **{f"{name}_stride": part.stride(1) for name, part in spectra._asdict().items()},
            before=_Tail(**_addresses(tail._asdict())),
            after=_Tail(**_addresses(after._asdict())),
            **_addresses(room),
        )
        source = torch.empty(count, subframes, self.bins_size)
        self._library.talkahead_sound_source(byref(self._native), byref(runs), source.data_ptr())
        pulses = torch.fft.rfft(source)
        whole = torch.empty_like(pulses)
        self._library.talkahead_mix_spectra(
            byref(self._native), byref(runs), pulses.data_ptr(), whole.data_ptr()
        )
        pieces = torch.fft.irfft(whole, n=self.bins_size)
        audio = torch.empty(count, samples)
        self._library.talkahead_lay_pieces(
            byref(self._native), byref(runs), pieces.data_ptr(), audio.data_ptr()
        )
        return audio, after


def _addresses(tensors: Mapping[str, Tensor]) -> dict[str, int]:
    return {name: tensor.data_ptr() for name, tensor in tensors.items()}
