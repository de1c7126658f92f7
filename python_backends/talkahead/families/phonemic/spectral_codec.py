"""The codec of sounds and prosody in windows. From one window to the next it carries the decoder's state, so
that no frame is decoded twice.

Shapes: B windows, T frames of the longest run, D numbers of a frame's description.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np
import torch
from torch import Tensor

from talkahead.audio.noise import Noise
from talkahead.backbone.cuda_graphs import recorder_on
from talkahead.backbone.forward_graphs import GraphRecorder
from talkahead.config import AUTO
from talkahead.errors import TalkaheadError
from talkahead.families.contracts import TORCH, CodecWindow, Decoded, Frames, Samples, require_engine
from talkahead.families.native_engine import NATIVE, native_network
from talkahead.families.onnx_network import ONNXRUNTIME
from talkahead.families.phonemic import native_renderer
from talkahead.families.phonemic.exported_decoder import ExportedDecoder
from talkahead.families.phonemic.frontend import NAME, SEGMENT_POSITIONS
from talkahead.families.phonemic.native_network import NativeNetwork
from talkahead.families.phonemic.native_renderer import NativeRenderer
from talkahead.families.phonemic.recorded_codec import (
    FRAME_STEP,
    RecordedRenderer,
    RecordedSpectralNetwork,
)
from talkahead.families.phonemic.spectral_decoder import (
    BEFORE,
    PITCH_BEFORE,
    SUBFRAMES,
    Spectra,
    SpectralConfig,
    SpectralDecoder,
    SpectralNetwork,
)
from talkahead.families.phonemic.spectral_renderer import Renderer, Tail
from talkahead.families.phonemic.timbre import Timbre
from talkahead.families.phonemic.voice import Voice, read_voices
from talkahead.families.tensorrt_network import TENSORRT
from talkahead.native_library import NativeUnavailable, load_library
from talkahead.speech_format import SpeechFormat

CONTEXT = PITCH_BEFORE - 1
"""Frames before a window's new ones that it must bring: a run begins one frame after the new ones do."""
UNHEARD_FRAMES = 1
"""Of silence, that the teacher's speech is learned with: without one, a copy's first consonant is damaged
(Whisper hears 13.3 % word errors in copies of 60 sentences where it hears 10.2 with it)."""


def speech_format(config: SpectralConfig, silence: int, max_positions: int) -> SpeechFormat:
    """Of a codec with a code of silence, and a talker with so many positions."""
    return SpeechFormat(
        family=NAME,
        sample_rate_hz=config.sample_rate_hz,
        hop=config.hop,
        codebooks=(config.num_codes,),
        context_frames=CONTEXT,
        lookahead_frames=config.lookahead_frames,
        silence=(silence,),
        max_positions=max_positions,
        segment_positions=SEGMENT_POSITIONS,
        has_encoder=False,
        is_elastic=True,
        unheard_frames=UNHEARD_FRAMES,
    )


@dataclass(frozen=True)
class _State:
    """After a run: what the blocks saw last [blocks, BEFORE, W], and the renderer's tail."""

    seen: Tensor
    tail: Tail


@dataclass(frozen=True)
class _Runs:
    """What a batch of windows asks of the decoder: runs of frames, each a row, padded at their end.

    Args:
        codes: int64 [B, PITCH_BEFORE + T + lookahead], from `PITCH_BEFORE` frames before each run on.
        valid: which of these are frames of the utterance.
        frames: of each run [B].
        even: of all of them, where they are equally long: known without asking a device, and one slice then
            finds what several calls would, each of which is slow where the caches are cold.
    """

    codes: Tensor
    valid: Tensor
    frames: Tensor
    even: int | None

    @classmethod
    def of(cls, windows: Sequence[CodecWindow], lookahead: int, step: int = 1) -> _Runs:
        """A run goes from the frame after the first new one, or from an utterance's first frame, to the one
        after the last. Rows are as long as the longest, up to a multiple of `step` frames."""
        frames = [window.new + (1 + window.context) * (window.position == 0) for window in windows]
        longest = -(-max(frames) // step) * step
        codes = np.zeros((len(windows), PITCH_BEFORE + longest + lookahead), np.int64)
        valid = np.zeros(codes.shape, bool)
        for row, window in enumerate(windows):
            start = PITCH_BEFORE - (1 + window.context) * (window.position != 0)
            known = window.frames[max(-start, 0) :, 0][: codes.shape[1] - max(start, 0)]
            span = slice(max(start, 0), max(start, 0) + len(known))
            codes[row, span], valid[row, span] = known, True
        even = frames[0] if len(set(frames)) == 1 else None
        return cls(torch.from_numpy(codes), torch.from_numpy(valid), torch.tensor(frames), even)

    def to(self, device: torch.device) -> _Runs:
        return _Runs(self.codes.to(device), self.valid.to(device), self.frames.to(device), self.even)

    def last_of(self, seen: Tensor) -> Tensor:
        """What the blocks saw last [B, blocks, BEFORE, W], of all that they saw [.., BEFORE + T, W]."""
        if self.even is not None:
            return seen[:, :, self.even : self.even + BEFORE].clone()
        places = self.frames[:, None, None, None] + torch.arange(BEFORE, device=seen.device)[:, None]
        return seen.gather(2, places.expand(-1, seen.shape[1], -1, seen.shape[3]))


@dataclass(frozen=True)
class _Made:
    """What the network made of runs.

    Args:
        hertz: of all subframes and one to each side [B, S + 2].
        seen: what the blocks saw last [B, blocks, BEFORE, W].
        frames: as of the runs.
    """

    spectra: Spectra
    hertz: Tensor
    seen: Tensor
    frames: Tensor

    def of(self, rows: Sequence[int]) -> _Made:
        """Of some rows."""
        if len(rows) == len(self.frames):
            return self
        spectra, *others = vars(self).values()
        return _Made(Spectra(*(part[rows] for part in spectra)), *(part[rows] for part in others))

    def in_timbre(self, timbre: Timbre | None) -> _Made:
        if timbre is None:
            return self
        return replace(self, spectra=timbre(self.spectra), hertz=self.hertz * timbre.pitch)


class SpectralCodec:
    """A `Codec`.

    Args:
        recorder: of the device, where the network is torch's.
    """

    def __init__(
        self,
        network: SpectralNetwork,
        device: torch.device,
        voices: Sequence[Voice] = (),
        renderer: type[Renderer] = Renderer,
        recorder: GraphRecorder | None = None,
    ) -> None:
        self._device, self._make_renderer, self._recorder = device, renderer, recorder
        self._network = network if recorder is None else RecordedSpectralNetwork(network, recorder)
        self._step = 1 if recorder is None else FRAME_STEP
        self._timbres = {
            place: Timbre(network.config, voice).to(device, network.dtype)
            for place, voice in enumerate(voices)
            if voice.is_changed
        }
        unseen = torch.zeros(network.config.blocks, BEFORE, network.config.width, dtype=network.dtype)
        self._unseen = unseen.to(device)
        self._noise = Noise(SUBFRAMES, 2 * network.config.bins)
        self._renderers: dict[float, Renderer | RecordedRenderer] = {}

    @classmethod
    def load(cls, folder: Path, device: torch.device, engine: str = AUTO) -> Self:
        network = _network(folder, device, engine)
        recorder = recorder_on(device) if isinstance(network, SpectralDecoder) else None
        return cls(network, device, read_voices(folder), _renderer(network, device), recorder)

    @property
    def precision(self) -> torch.dtype:
        return self._network.precision

    def renderer(self, speed: float) -> Renderer | RecordedRenderer:
        """One for each speed that was asked for; there are 700 thousandths. The voice's own is recorded,
        where the device records: graphs of all would take too much memory."""
        if speed not in self._renderers:
            made = self._make_renderer(self._network.config, self._noise, speed)
            made = made.to(self._device, self._network.dtype)
            recorder = self._recorder if speed == 1.0 else None
            self._renderers[speed] = made if recorder is None else RecordedRenderer(made, recorder)
        return self._renderers[speed]

    def decode(self, windows: Sequence[CodecWindow], states: Sequence[object | None]) -> list[Decoded]:
        """The network has all windows at once, a renderer those of one speed and one voice."""
        runs = _Runs.of(windows, self._network.config.lookahead, self._step).to(self._device)
        before = list(map(_state, states))
        decoded: dict[int, Decoded] = {}
        with torch.inference_mode():
            made = self._made(runs, before)
            for (speed, voice), rows in _by_manner(windows).items():
                renderer = self.renderer(speed)
                tails = _joined_tails(renderer, [before[row] for row in rows])
                sound = made.of(rows).in_timbre(self._timbres.get(voice))
                audio, after = self._rendered(renderer, sound, tails)
                for row, samples, *tail in zip(rows, audio, *map(Tensor.unbind, after), strict=True):
                    new = _new_part(windows[row], samples, renderer.frame_hop)
                    decoded[row] = Decoded(new, _State(made.seen[row], Tail(*tail)))
        return [decoded[row] for row in range(len(windows))]

    def _made(self, runs: _Runs, states: Sequence[_State | None]) -> _Made:
        before = torch.stack([state.seen if state else self._unseen for state in states])
        spectra, pitch, seen = self._network(runs.codes, runs.valid, before)
        return _Made(spectra, pitch.hertz(), runs.last_of(seen), runs.frames)

    @staticmethod
    def _rendered(renderer: Renderer | RecordedRenderer, made: _Made, tails: Tail) -> tuple[Samples, Tail]:
        """Audio [B, N], and the tails after it."""
        audio, after = renderer(made.spectra, made.hertz, tails, made.frames)
        return audio.float().cpu().numpy(), after

    def encode(self, audio: Samples) -> Frames:
        raise TalkaheadError("this voice's codec has no encoder: nothing is spoken like a recording")


def _network(folder: Path, device: torch.device, engine: str) -> SpectralNetwork:
    """Raises ArtifactMismatch where the engine does not run on the device, or not here."""
    require_engine(engine, (NATIVE, TORCH, ONNXRUNTIME), device.type, "this codec", (TORCH, TENSORRT))
    if engine in (ONNXRUNTIME, TENSORRT):
        return ExportedDecoder.load(folder, engine)
    decoder = SpectralDecoder.load(folder)
    return native_network(engine, device, lambda: NativeNetwork(decoder)) or decoder.to(device)


def _renderer(network: SpectralNetwork, device: torch.device) -> type[Renderer]:
    """Torch's with torch's network, and where nothing is compiled; on CPUs all others have the native one."""
    if device.type != "cpu" or isinstance(network, SpectralDecoder):
        return Renderer
    try:
        load_library(native_renderer.SOURCE)
    except NativeUnavailable:
        return Renderer
    return NativeRenderer


def _by_manner(windows: Sequence[CodecWindow]) -> dict[tuple[float, int], list[int]]:
    """Places of the windows of each speed and voice."""
    places: dict[tuple[float, int], list[int]] = defaultdict(list)
    for place, window in enumerate(windows):
        places[window.speed, window.voice].append(place)
    return places


def _joined_tails(renderer: Renderer | RecordedRenderer, states: Sequence[_State | None]) -> Tail:
    tails = [state.tail if state else _silent(renderer) for state in states]
    return Tail(*map(torch.stack, zip(*tails, strict=True)))


def _silent(renderer: Renderer | RecordedRenderer) -> Tail:
    """Before one utterance."""
    return Tail(*(part[0] for part in renderer.begin(1)))


def _new_part(window: CodecWindow, samples: Samples, hop: int) -> Samples:
    """An utterance's first run sounds from a frame before its start on, which is silence."""
    start = hop * (1 + window.context) if window.position == 0 else 0
    return samples[start : start + window.new * hop]


def _state(state: object | None) -> _State | None:
    assert state is None or isinstance(state, _State)
    return state
