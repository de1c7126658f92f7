"""The network of the spectral codec: codes to the spectra and the pitch of which the renderer makes audio.

A frame has one code: which sound is being made, and how high and loud. The network is causal but for its
look-ahead, and keeps its state, so that a window costs what its new frames cost and no more. Its operators
are real-valued single precision; source, noise and inverse transform are host code (`spectral_renderer.py`).

Shapes: B rows, T frames, S = 2 T subframes, W width, K bins.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple, Protocol, Self

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional

from talkahead.families.phonemic.frame_block import CausalBlock, side_by_side
from talkahead.families.phonemic.quantizer import Quantizer
from talkahead.weights import Unfilled, load_float32

CONFIG_FILE = "codec.json"
"""The shape of a codec, beside its weights."""
SUBFRAMES = 2
BEFORE = 2
"""Frames that a block sees before its own."""
PITCH_BEFORE, PITCH_AFTER = 2, 1
"""Frames around its own that a frame's pitch depends on."""
_VOICE_HZ = 200.0
"""The pitch at which the network's logarithms are 0."""


@dataclass(frozen=True)
class SpectralConfig:
    """Shape of the codec.

    Args:
        sound_levels: of the quantised dimensions that tell the sound of a frame.
        prosody_levels: of those that tell its pitch and loudness.
        width, inner, blocks: of the causal blocks.
        lookahead: frames that the spectra of a frame may look ahead; its pitch looks `PITCH_AFTER` ahead.
        hidden: width of the linear layer's input that gives the spectra, which is the teacher's own.
        hop: samples of a frame, of `SUBFRAMES` subframes.
        num_fft: samples of a subframe's spectrum.
    """

    sound_levels: tuple[int, ...] = (8, 8, 6)
    prosody_levels: tuple[int, ...] = (8, 5)
    width: int = 256
    inner: int = 640
    blocks: int = 6
    lookahead: int = 4
    hidden: int = 256
    pitch_width: int = 64
    sample_rate_hz: int = 24_000
    hop: int = 600
    num_fft: int = 1_200

    @property
    def levels(self) -> tuple[int, ...]:
        return self.sound_levels + self.prosody_levels

    @property
    def num_codes(self) -> int:
        return math.prod(self.levels)

    @property
    def bins(self) -> int:
        return self.num_fft // 2 + 1

    @property
    def lookahead_frames(self) -> int:
        """A frame's audio ends with pieces of the next one."""
        return self.lookahead + 1

    @classmethod
    def from_file(cls, path: Path) -> Self:
        fields = json.loads(path.read_text(encoding="utf-8"))
        lists = {name: tuple(fields[name]) for name in ("sound_levels", "prosody_levels")}
        return cls(**{**fields, **lists})


class Spectra(NamedTuple):
    """What a subframe sounds like: log-magnitudes of the voice's filter and of the breath, and the rest of
    the spectrum by its log-magnitude and phase, each [B, S, K]."""

    voice: Tensor
    breath: Tensor
    rest: Tensor
    phase: Tensor


class Pitch(NamedTuple):
    """Of subframes: logarithm of the height over 200 Hz, and how surely it is voiced (0: undecided),
    each [B, S]."""

    height: Tensor
    voicing: Tensor

    def hertz(self) -> Tensor:
        """0 where unvoiced."""
        return torch.where(self.voicing > 0, _VOICE_HZ * torch.exp(self.height), 0.0)


class NetworkOutput(NamedTuple):
    """Of T frames: their spectra, their pitch and that of a frame to each side, and what each block saw
    [B, blocks, BEFORE + T, W]."""

    spectra: Spectra
    pitch: Pitch
    seen: Tensor


class SpectralNetwork(Protocol):
    """The decoder's network, whatever runs it."""

    @property
    def config(self) -> SpectralConfig: ...

    @property
    def dtype(self) -> torch.dtype:
        """Of what it takes and gives."""

    @property
    def precision(self) -> torch.dtype:
        """Of its products."""

    def __call__(self, codes: Tensor, valid: Tensor, before: Tensor) -> NetworkOutput:
        """Codes int64 [B, PITCH_BEFORE + T + lookahead], from `PITCH_BEFORE` frames before the first one on;
        which of them are frames of the utterance, bool alike; what the blocks saw last
        [B, blocks, BEFORE, W], zeros where an utterance begins.
        """


def height_of(hertz: Tensor) -> Tensor:
    """The logarithm that the network gives, of a voiced pitch."""
    return torch.log(hertz / _VOICE_HZ)


def description_of(dimensions: Tensor, valid: Tensor) -> Tensor:
    """Frames' quantised dimensions [B, T, C] and a one, [B, T, C + 1]; zero where not valid, [B, T]."""
    return functional.pad(dimensions, (0, 1), value=1.0) * valid[..., None].to(dimensions.dtype)


class SpectralDecoder(nn.Module):
    """A `SpectralNetwork`: frames' descriptions to spectra and pitch.

    A description is the quantised dimensions of a frame's code and a one; beyond an utterance's edges it is
    zero.
    """

    def __init__(self, config: SpectralConfig) -> None:
        super().__init__()
        self.config = config
        self.quantizer = Quantizer(config.levels)
        described = len(config.levels) + 1
        self.inward = nn.Linear(described * (config.lookahead + 1), config.width)
        self.blocks = nn.ModuleList(
            CausalBlock(config.width, config.inner, BEFORE) for _ in range(config.blocks)
        )
        self.norm = nn.LayerNorm(config.width)
        self.outward = nn.Linear(config.width, SUBFRAMES * config.hidden)
        self.spectra = nn.Linear(config.hidden, len(Spectra._fields) * config.bins)
        self.pitch_inward = nn.Linear(described * (PITCH_BEFORE + 1 + PITCH_AFTER), config.pitch_width)
        self.pitch_outward = nn.Linear(config.pitch_width, SUBFRAMES * len(Pitch._fields))

    @property
    def dtype(self) -> torch.dtype:
        return self.inward.weight.dtype

    @property
    def precision(self) -> torch.dtype:
        return self.dtype

    def forward(self, codes: Tensor, valid: Tensor, before: Tensor) -> NetworkOutput:
        told = self.describe(codes, valid)
        hidden, seen = self.hidden(told[:, PITCH_BEFORE:], before)
        around = told[:, : told.shape[1] - self.config.lookahead + 1 + PITCH_AFTER]
        return NetworkOutput(self.spectra_of(hidden), self.pitch_of(around), seen)

    def describe(self, codes: Tensor, valid: Tensor) -> Tensor:
        """Codes int64 [B, T], valid [B, T] -> [B, T, dimensions + 1]."""
        return description_of(self.quantizer.decode(codes).to(self.dtype), valid)

    def hidden(self, described: Tensor, before: Tensor) -> tuple[Tensor, Tensor]:
        """Descriptions [B, T + lookahead, *] -> [B, S, hidden] of T frames, and what each block saw
        [B, blocks, BEFORE + T, W].

        Args:
            before: what the blocks saw last, [B, blocks, BEFORE, W]; zeros where an utterance begins.
        """
        frames = self.inward(side_by_side(described, self.config.lookahead + 1))
        seen = []
        for place, block in enumerate(self.blocks):
            frames, one = block(frames, before[:, place])
            seen.append(one)
        made = self.outward(self.norm(frames))
        return made.unflatten(-1, (SUBFRAMES, -1)).flatten(1, 2), torch.stack(seen, dim=1)

    def spectra_of(self, hidden: Tensor) -> Spectra:
        """[B, S, hidden] -> spectra of the subframes."""
        return Spectra(*self.spectra(hidden).chunk(len(Spectra._fields), dim=-1))

    def pitch_of(self, described: Tensor) -> Pitch:
        """Of T frames: descriptions [B, PITCH_BEFORE + T + PITCH_AFTER, *] of them and their neighbours."""
        around = side_by_side(described, PITCH_BEFORE + 1 + PITCH_AFTER)
        inner = functional.gelu(self.pitch_inward(around), approximate="tanh")
        return Pitch(*self.pitch_outward(inner).unflatten(-1, (SUBFRAMES, -1)).flatten(1, 2).unbind(-1))

    def save(self, folder: Path) -> None:
        """Writes `codec.json` and `codec.safetensors`."""
        folder.mkdir(parents=True, exist_ok=True)
        described = json.dumps(asdict(self.config), indent=2) + "\n"
        (folder / CONFIG_FILE).write_text(described, encoding="utf-8")
        save_file(self.state_dict(), folder / "codec.safetensors")

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Reads what `save` wrote, as float32, ready for inference."""
        with Unfilled():
            decoder = cls(SpectralConfig.from_file(folder / CONFIG_FILE))
        decoder.load_state_dict(load_float32(folder / "codec.safetensors"))
        return decoder.eval().requires_grad_(False)
