"""The codec: 16 kHz speech as 50 frames a second, one code each; its decoder is causal and keeps no state.

Convolutions are written as linear layers over neighbouring frames laid side by side: CPUs with bf16 matrix
units run those fastest. Frames outside an utterance are zero at every layer, in training as in streaming, so
a window that covers the receptive field decodes to the very samples of the whole utterance.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional

from talkahead.audio.mel import LogMel
from talkahead.audio.quantizer import Quantizer
from talkahead.weights import load_float32


@dataclass(frozen=True)
class CodecConfig:
    """Shape of the codec; `hop` samples a frame, `context_frames` and `lookahead_frames` at its edges.

    `silence_code` is what the encoder makes of digital silence: pauses are written with it.
    """

    sample_rate_hz: int = 16_000
    hop: int = 320
    levels: tuple[int, ...] = (8, 8, 5, 5)
    num_mels: int = 80
    encoder_width: int = 256
    encoder_blocks: int = 4
    decoder_width: int = 320
    decoder_hidden: int = 640
    decoder_blocks: int = 6
    lookahead_frames: int = 1
    subframes: int = 2
    num_fft: int = 640
    silence_code: int = 0

    @property
    def codebook_size(self) -> int:
        size = 1
        for level in self.levels:
            size *= level
        return size

    @property
    def subhop(self) -> int:
        return self.hop // self.subframes

    @property
    def context_frames(self) -> int:
        """Context beyond which frames cannot matter: two frames a block, and the overlap-add's tail."""
        tail = self.num_fft - self.subhop
        return 2 * self.decoder_blocks + -(-tail // self.hop)

    @classmethod
    def from_file(cls, path: Path) -> Self:
        fields = json.loads(path.read_text())
        return cls(**{**fields, "levels": tuple(fields["levels"])})


def neighbours(frames: Tensor, before: int, after: int) -> Tensor:
    """Each frame with its neighbours, zeros beyond the edges: [B, T, D] -> [B, T, (before+1+after) * D]."""
    length = frames.shape[1]
    padded = functional.pad(frames, (0, 0, before, after))
    return torch.cat([padded[:, shift : shift + length] for shift in range(before + 1 + after)], dim=-1)


class FrameBlock(nn.Module):
    """Residual block over a frame and its neighbours. [B, T, width] -> same."""

    def __init__(self, width: int, hidden: int, before: int, after: int) -> None:
        super().__init__()
        self.before, self.after = before, after
        self.norm = nn.LayerNorm(width)
        self.mix = nn.Linear(width * (before + 1 + after), hidden)
        self.out = nn.Linear(hidden, width)

    def forward(self, frames: Tensor, mask: Tensor) -> Tensor:
        around = neighbours(self.norm(frames) * mask, self.before, self.after)
        change: Tensor = self.out(functional.gelu(self.mix(around), approximate="tanh"))
        return (frames + change) * mask


class CodecEncoder(nn.Module):
    """Audio to latents, seeing all of it. audio [B, T * hop], mask [B, T, 1] -> [B, T, K]."""

    def __init__(self, config: CodecConfig) -> None:
        super().__init__()
        self.mel = LogMel(config.sample_rate_hz, hop=config.subhop, num_mels=config.num_mels)
        self.inward = nn.Linear(config.num_mels * config.subframes, config.encoder_width)
        self.blocks = nn.ModuleList(
            FrameBlock(config.encoder_width, 2 * config.encoder_width, 1, 1)
            for _ in range(config.encoder_blocks)
        )
        self.outward = nn.Linear(config.encoder_width, len(config.levels))
        self.subframes = config.subframes

    def forward(self, audio: Tensor, mask: Tensor) -> Tensor:
        mel = (self.mel(audio) + 4.0) / 3.0
        frames = self.inward(mel.reshape(mel.shape[0], -1, mel.shape[2] * self.subframes)) * mask
        for block in self.blocks:
            frames = block(frames, mask)
        latents: Tensor = self.outward(frames)
        return latents


class CodecDecoder(nn.Module):
    """Quantised latents to PCM. latents [B, T, K], mask [B, T, 1] -> [B, T * hop].

    Each frame emits `subframes` spectra, whose windows *begin* with their subframe: sample s depends on the
    windows that began in the last `num_fft` samples, never on a later one.
    """

    window: Tensor

    def __init__(self, config: CodecConfig) -> None:
        super().__init__()
        self.config = config
        self.inward = nn.Linear(len(config.levels) * (config.lookahead_frames + 1), config.decoder_width)
        self.blocks = nn.ModuleList(
            FrameBlock(config.decoder_width, config.decoder_hidden, 2, 0)
            for _ in range(config.decoder_blocks)
        )
        self.norm = nn.LayerNorm(config.decoder_width)
        self.bins = config.num_fft // 2 + 1
        self.outward = nn.Linear(config.decoder_width, 2 * self.bins * config.subframes)
        window = torch.hann_window(config.num_fft)
        # Constant overlap-add: squared Hann windows at this overlap add up to 3/8 of the overlap.
        self.register_buffer("window", window / (0.375 * config.num_fft / config.subhop), persistent=False)

    def forward(self, latents: Tensor, mask: Tensor) -> Tensor:
        frames = self.inward(neighbours(latents * mask, 0, self.config.lookahead_frames)) * mask
        for block in self.blocks:
            frames = block(frames, mask)
        spectra = self.outward(self.norm(frames))
        return self._overlap_add(spectra.to(self.window.dtype), mask)

    def _overlap_add(self, spectra: Tensor, mask: Tensor) -> Tensor:
        batch, length, _ = spectra.shape
        config = self.config
        magnitude, phase = spectra.reshape(batch, length * config.subframes, 2, self.bins).unbind(2)
        polar = torch.polar(torch.exp(torch.clamp(magnitude, max=6.0)), phase)
        pieces = torch.fft.irfft(polar, n=config.num_fft) * self.window
        pieces = pieces * mask.to(pieces.dtype).repeat_interleave(config.subframes, dim=1)
        return sum_overlapping(pieces, config.subhop)[:, : length * config.hop]


def sum_overlapping(pieces: Tensor, hop: int) -> Tensor:
    """Adds pieces [B, S, L] laid `hop` apart, L a multiple of `hop`. Returns [B, (S - 1) * hop + L]."""
    batch, count, size = pieces.shape
    overlap = size // hop
    parts = pieces.reshape(batch, count, overlap, hop)
    total = pieces.new_zeros(batch, count + overlap - 1, hop)
    for place in range(overlap):
        total[:, place : place + count] += parts[:, :, place]
    return total.reshape(batch, -1)


class Codec(nn.Module):
    """Encoder, quantiser and decoder, with their configuration."""

    def __init__(self, config: CodecConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = CodecEncoder(config)
        self.quantizer = Quantizer(config.levels)
        self.decoder = CodecDecoder(config)

    def forward(self, audio: Tensor) -> Tensor:
        """Reconstructs audio [B, T * hop], for training."""
        mask = audio.new_ones(audio.shape[0], audio.shape[1] // self.config.hop, 1)
        restored: Tensor = self.decoder(self.quantizer(self.encoder(audio, mask)), mask)
        return restored

    def encode(self, audio: Tensor, lengths: Tensor) -> Tensor:
        """Codes int64 [B, T] of audio [B, T * hop]; rows are `lengths` [B] frames long."""
        mask = self._mask(torch.zeros_like(lengths), lengths, audio.shape[1] // self.config.hop).to(
            audio.dtype
        )
        codes: Tensor = self.quantizer.encode(self.encoder(audio, mask))
        return codes

    def decode(self, codes: Tensor) -> Tensor:
        """PCM [B, T * hop] of whole utterances, codes int64 [B, T]."""
        batch, length = codes.shape
        start = torch.zeros(batch, dtype=torch.int64, device=codes.device)
        return self.decode_windows(codes, start, start + length)

    def decode_windows(self, codes: Tensor, starts: Tensor, ends: Tensor) -> Tensor:
        """PCM [B, W * hop] of windows int64 [B, W]; frames outside [starts, ends) [B] are padding.

        A row's samples equal the whole utterance's wherever its window holds `context_frames` frames before
        them (or the utterance's start) and `lookahead_frames` after (or its end).
        """
        dtype = self.decoder.inward.weight.dtype
        mask = self._mask(starts, ends, codes.shape[1]).to(dtype)
        pcm: Tensor = self.decoder(self.quantizer.decode(codes).to(dtype), mask)
        return pcm

    @staticmethod
    def _mask(starts: Tensor, ends: Tensor, length: int) -> Tensor:
        place = torch.arange(length, device=starts.device)
        return ((place >= starts[:, None]) & (place < ends[:, None]))[..., None]

    def save(self, folder: Path) -> None:
        """Writes `codec.json` and `codec.safetensors`."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "codec.json").write_text(json.dumps(asdict(self.config), indent=2) + "\n")
        save_file(self.state_dict(), folder / "codec.safetensors")

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Reads what `save` wrote, as float32, ready for inference."""
        codec = cls(CodecConfig.from_file(folder / "codec.json"))
        codec.load_state_dict(load_float32(folder / "codec.safetensors"))
        return codec.eval().requires_grad_(False)
