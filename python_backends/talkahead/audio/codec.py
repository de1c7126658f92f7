"""The codec: 16 kHz speech as 50 frames a second, one code each; its decoder is causal and keeps no state.

A code tells its frame's pitch and spectrum. The decoder shapes the pitch's harmonics, whose phase adds up
over the codes (`audio/pitch.py`), and adds what is not voice.

Convolutions are written as linear layers over neighbouring frames laid side by side: CPUs with bf16 matrix
units run those fastest. Frames outside an utterance are zero at every layer, in training as in streaming, so
a window that covers the receptive field decodes to the very samples of the whole utterance.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional

from talkahead.audio.code_book import CodeBook
from talkahead.audio.harmonics import Harmonics
from talkahead.audio.mel import LogMel
from talkahead.audio.noise import Noise
from talkahead.audio.pitch import PERIOD, UNVOICED, PhaseCounter, PitchScale, gap
from talkahead.weights import load_float32


@dataclass(frozen=True)
class CodecConfig:
    """Shape of the codec; `hop` samples a frame, `context_frames` and `lookahead_frames` at its edges.

    A code tells its spectrum, of so many `levels` by dimension, and its tone: one of `pitches` from
    `lowest_hz` to `highest_hz`, or unvoiced in one of `shades`.
    """

    sample_rate_hz: int = 16_000
    hop: int = 320
    levels: tuple[int, ...] = (8, 6, 5)
    shades: int = 4
    pitches: int = 16
    lowest_hz: float = 67.0
    highest_hz: float = 210.0
    num_mels: int = 80
    encoder_width: int = 256
    encoder_blocks: int = 3
    decoder_width: int = 320
    decoder_hidden: int = 640
    decoder_blocks: int = 5
    lookahead_frames: int = 1
    subframes: int = 2
    num_fft: int = 640
    filter_points: int = 81

    @property
    def num_spectra(self) -> int:
        return math.prod(self.levels)

    @property
    def num_tones(self) -> int:
        """Shades of unvoiced frames, and pitches."""
        return self.shades + self.pitches

    @property
    def codebook_size(self) -> int:
        return self.num_spectra * self.num_tones

    @property
    def phase_counter(self) -> PhaseCounter:
        book = CodeBook(self.levels, self.shades, self.pitches)
        return PhaseCounter(book.pitch_of_codes(), self.pitch_scale.advances(self.hop / self.sample_rate_hz))

    @property
    def pitch_scale(self) -> PitchScale:
        return PitchScale(self.lowest_hz, self.highest_hz, self.pitches)

    @property
    def subhop(self) -> int:
        return self.hop // self.subframes

    @property
    def tail_frames(self) -> int:
        """Frames whose pieces reach into the next one."""
        return -(-(self.num_fft - self.subhop) // self.hop)

    @property
    def context_frames(self) -> int:
        """Context beyond which frames cannot matter: two frames a block, and the overlap-add's tail."""
        return 2 * self.decoder_blocks + self.tail_frames

    @classmethod
    def from_file(cls, path: Path) -> Self:
        fields = json.loads(path.read_text(encoding="utf-8"))
        return cls(**{**fields, "levels": tuple(fields["levels"])})


_LOUDEST, _FAINT = 6.0, -5.0
"""Bound of the decoder's log-magnitudes, and where those of the noise begin."""


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
    """Audio to latents and to scores of the levels of pitch, seeing all of it.

    audio [B, T * hop], mask [B, T, 1] -> [B, T, K + 1] and [B, T, 1 + pitches].
    """

    def __init__(self, config: CodecConfig) -> None:
        super().__init__()
        self.mel = LogMel(config.sample_rate_hz, hop=config.subhop, num_mels=config.num_mels)
        self.inward = nn.Linear(config.num_mels * config.subframes, config.encoder_width)
        self.blocks = nn.ModuleList(
            FrameBlock(config.encoder_width, 2 * config.encoder_width, 1, 1)
            for _ in range(config.encoder_blocks)
        )
        self.outward = nn.Linear(config.encoder_width, len(config.levels) + 1)
        self.pitch = nn.Linear(config.encoder_width, 1 + config.pitches)
        self.subframes = config.subframes

    def forward(self, audio: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        mel = (self.mel(audio) + 4.0) / 3.0
        frames = self.inward(mel.reshape(mel.shape[0], -1, mel.shape[2] * self.subframes)) * mask
        for block in self.blocks:
            frames = block(frames, mask)
        return self.outward(frames), self.pitch(frames)


class CodecDecoder(nn.Module):
    """Quantised latents and pitch to PCM. latents [B, T, K + 1], mask [B, T, 1], the levels of pitch [B, T]
    and their source [B, T * subframes, 2, num_fft] -> [B, T * hop].

    Each frame emits `subframes` pieces, which *begin* with their subframe: sample s depends on the pieces
    that began in the last `num_fft` samples, never on a later one. A piece is harmonics and noise through
    filters, and a free spectrum beside them.
    """

    window: Tensor
    hann: Tensor
    spread: Tensor
    tone: Tensor

    def __init__(self, config: CodecConfig) -> None:
        super().__init__()
        self.config = config
        inputs = len(config.levels) + 3
        self.inward = nn.Linear(inputs * (config.lookahead_frames + 1), config.decoder_width)
        self.blocks = nn.ModuleList(
            FrameBlock(config.decoder_width, config.decoder_hidden, 2, 0)
            for _ in range(config.decoder_blocks)
        )
        self.norm = nn.LayerNorm(config.decoder_width)
        self.bins = config.num_fft // 2 + 1
        self.outward = nn.Linear(config.decoder_width, 2 * self.bins * config.subframes)
        self.filter = nn.Linear(config.decoder_width, 2 * config.filter_points * config.subframes)
        self.hiss = nn.Linear(config.decoder_width, config.filter_points * config.subframes)
        for part, level in ((self.filter, 0.0), (self.hiss, _FAINT)):
            nn.init.normal_(part.weight, std=0.01)
            nn.init.constant_(part.bias, level)
        window = torch.hann_window(config.num_fft)
        self.register_buffer("hann", window, persistent=False)
        # Constant overlap-add: squared Hann windows at this overlap add up to 3/8 of the overlap.
        self.register_buffer("window", window / (0.375 * config.num_fft / config.subhop), persistent=False)
        self.register_buffer("spread", _straight_lines(config.filter_points, self.bins), persistent=False)
        self.register_buffer("tone", _tone(config.pitch_scale), persistent=False)

    def forward(self, latents: Tensor, mask: Tensor, pitch: Tensor, source: Tensor, skip: int = 0) -> Tensor:
        """The first `skip` frames are context alone, source [B, (T - skip) * subframes, 2, num_fft] begins
        behind them, and so does the PCM.
        """
        described = torch.cat([latents, self.tone[pitch].to(latents.dtype)], dim=-1)
        frames = self.inward(neighbours(described * mask, 0, self.config.lookahead_frames)) * mask
        for block in self.blocks:
            frames = block(frames, mask)
        frames, mask = self.norm(frames[:, skip:]), mask[:, skip:]
        rest, voiced = (self._polar(part(frames)) for part in (self.outward, self.filter))
        breath = self._gains(self.hiss(frames).unflatten(-1, (self.config.subframes, -1)).flatten(1, 2))
        voice, noise = torch.fft.rfft(source * self.hann).unbind(2)
        return self._overlap_add(rest + voice * voiced + noise * breath, mask)

    def _polar(self, frames: Tensor) -> Tensor:
        """Complex spectra [B, T * subframes, bins] of log-magnitudes and phases, which may be fewer."""
        batch, length, width = frames.shape
        subframes = self.config.subframes
        magnitude, phase = frames.reshape(batch, length * subframes, 2, width // subframes // 2).unbind(2)
        return torch.polar(self._gains(magnitude), self._at_bins(phase))

    def _gains(self, magnitude: Tensor) -> Tensor:
        return torch.exp(self._at_bins(magnitude).clamp(max=_LOUDEST))

    def _at_bins(self, values: Tensor) -> Tensor:
        values = values.to(self.window.dtype)
        return values if values.shape[-1] == self.bins else values @ self.spread

    def _overlap_add(self, spectra: Tensor, mask: Tensor) -> Tensor:
        config = self.config
        pieces = torch.fft.irfft(spectra, n=config.num_fft) * self.window
        pieces = pieces * mask.to(pieces.dtype).repeat_interleave(config.subframes, dim=1)
        return sum_overlapping(pieces, config.subhop)[:, : mask.shape[1] * config.hop]


def _straight_lines(points: int, bins: int) -> Tensor:
    """What makes values at `points` equally far apart into values at `bins`: [points, bins]."""
    place = torch.linspace(0, points - 1, bins)
    return torch.clamp(1 - (place - torch.arange(points)[:, None]).abs(), min=0)


def _tone(scale: PitchScale) -> Tensor:
    """What the decoder is told of each level of pitch, [levels, 2]: its height, and whether it is voiced."""
    hertz = torch.from_numpy(scale.levels_hz()).float()
    is_voiced = hertz > 0
    middle = math.sqrt(scale.lowest_hz * scale.highest_hz)
    height = 2 * torch.log(torch.where(is_voiced, hertz, middle) / middle)
    return torch.stack([height, 2.0 * is_voiced - 1.0], dim=-1)


def sum_overlapping(pieces: Tensor, hop: int) -> Tensor:
    """Adds pieces [B, S, L] laid `hop` apart, L a multiple of `hop`. Returns [B, (S - 1) * hop + L]."""
    batch, count, size = pieces.shape
    overlap = size // hop
    parts = pieces.reshape(batch, count, overlap, hop)
    total = pieces.new_zeros(batch, count + overlap - 1, hop)
    for place in range(overlap):
        total[:, place : place + count] += parts[:, :, place]
    return total.reshape(batch, -1)


class Source(nn.Module):
    """What the decoder's filters shape: harmonics and noise, [B, T * subframes, 2, num_fft].

    `forward`: levels of pitch int64 [B, T], and the phase int64 [B] at each row's frame `starts` [B]; the
    first `skip` frames are left out.
    """

    hertz: Tensor
    advances: Tensor

    def __init__(self, config: CodecConfig) -> None:
        super().__init__()
        self.harmonics = Harmonics(config.sample_rate_hz, config.hop, config.subframes, config.num_fft)
        self.noise = Noise(config.subframes, config.num_fft)
        self.frame_s = config.hop / config.sample_rate_hz
        hertz = torch.from_numpy(config.pitch_scale.levels_hz()).float()
        advances = torch.from_numpy(config.pitch_scale.advances(self.frame_s))
        self.register_buffer("hertz", hertz, persistent=False)
        self.register_buffer("advances", advances, persistent=False)

    def forward(self, pitch: Tensor, phase: Tensor, starts: Tensor, skip: int = 0) -> Tensor:
        passed = self.advances[pitch[:, :-1], pitch[:, 1:]]
        place = torch.arange(passed.shape[1], device=passed.device)
        passed = torch.where(place >= starts[:, None], passed, 0).cumsum(1)
        phases = (phase[:, None] + functional.pad(passed, (1, 0)))[:, skip:] % PERIOD
        return self._of(self.hertz[pitch[:, skip:]], phases)

    def of_hertz(self, hertz: Tensor) -> Tensor:
        """The same for any pitch in Hz [B, T], 0 where unvoiced, from a phase drawn at random."""
        begin, end = gap(hertz[:, :-1].double(), hertz[:, 1:].double())
        passed = torch.round((begin + end) / 2 * self.frame_s * PERIOD).long().cumsum(1)
        start = torch.randint(PERIOD, (len(hertz), 1), device=hertz.device)
        return self._of(hertz, (start + functional.pad(passed, (1, 0))) % PERIOD)

    def _of(self, hertz: Tensor, phases: Tensor) -> Tensor:
        harmonics = self.harmonics(hertz, phases.double() / PERIOD)
        return torch.stack([harmonics, self.noise(phases).to(harmonics)], dim=2)


class Codec(nn.Module):
    """Encoder, code book and decoder, with their configuration."""

    def __init__(self, config: CodecConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = CodecEncoder(config)
        self.book = CodeBook(config.levels, config.shades, config.pitches)
        self.source = Source(config)
        self.decoder = CodecDecoder(config)

    def forward(self, audio: Tensor, hertz: Tensor, pitch: Tensor) -> tuple[Tensor, Tensor]:
        """Reconstructs audio [B, T * hop] of known pitch [B, T], for training.

        The voice follows the pitch as it is, not its levels: harmonics that do not lie on the recording's
        would have to be learnt as noise. Returns the audio and the encoder's scores of the levels,
        [B, T, 1 + pitches].
        """
        mask = audio.new_ones(*pitch.shape, 1)
        latents, scores = self.encoder(audio, mask)
        source = self.source.of_hertz(hertz)
        return self.decoder(self.book(latents, pitch), mask, pitch, source), scores

    def encode(self, audio: Tensor, lengths: Tensor) -> Tensor:
        """Codes int64 [B, T] of audio [B, T * hop]; rows are `lengths` [B] frames long."""
        mask = self._mask(torch.zeros_like(lengths), lengths, audio.shape[1] // self.config.hop)
        latents, scores = self.encoder(audio, mask.to(audio.dtype))
        codes: Tensor = self.book.encode(latents, scores.argmax(-1))
        return codes

    def copy(self, audio: Tensor) -> Tensor:
        """Audio [B, T * hop] as it comes back from its own codes."""
        lengths = torch.full((len(audio),), audio.shape[1] // self.config.hop, device=audio.device)
        with torch.no_grad():
            codes = self.encode(audio, lengths)
        return self.decode(codes)

    def decode(self, codes: Tensor) -> Tensor:
        """PCM [B, T * hop] of whole utterances, codes int64 [B, T]."""
        batch, length = codes.shape
        start = torch.zeros(batch, dtype=torch.int64, device=codes.device)
        return self.decode_windows(codes, start, start + length, start)

    def decode_windows(
        self, codes: Tensor, starts: Tensor, ends: Tensor, phases: Tensor, first: int = 0
    ) -> Tensor:
        """PCM [B, (W - first) * hop] of windows int64 [B, W], from frame `first` on; frames outside
        [starts, ends) [B] are padding.

        `phases` [B] is the phase at frame `starts` (`PhaseCounter`), 0 at an utterance's start. A row's
        samples equal the whole utterance's wherever its window holds `context_frames` frames before them (or
        the utterance's start) and `lookahead_frames` after (or its end).
        """
        mask = self._mask(starts, ends, codes.shape[1])
        latents, pitch = self.book.decode(codes)
        pitch = torch.where(mask[..., 0], pitch, UNVOICED)
        # One frame more than reaches into the first: a voice's path begins at the frame before.
        skip = max(first - self.config.tail_frames - 1, 0)
        source = self.source(pitch, phases, starts, skip)
        dtype = self.decoder.inward.weight.dtype
        pcm: Tensor = self.decoder(latents.to(dtype), mask.to(dtype), pitch, source, skip)
        return pcm[:, (first - skip) * self.config.hop :]

    @staticmethod
    def _mask(starts: Tensor, ends: Tensor, length: int) -> Tensor:
        place = torch.arange(length, device=starts.device)
        return ((place >= starts[:, None]) & (place < ends[:, None]))[..., None]

    def save(self, folder: Path) -> None:
        """Writes `codec.json` and `codec.safetensors`."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "codec.json").write_text(json.dumps(asdict(self.config), indent=2) + "\n", encoding="utf-8")
        save_file(self.state_dict(), folder / "codec.safetensors")

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Reads what `save` wrote, as float32, ready for inference."""
        codec = cls(CodecConfig.from_file(folder / "codec.json"))
        codec.load_state_dict(load_float32(folder / "codec.safetensors"))
        return codec.eval().requires_grad_(False)
