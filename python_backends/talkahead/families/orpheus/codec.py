"""SNAC behind `Codec`: windows that cover its receptive field decode to the very samples of the whole.

Its codes come in three rates: of a frame's seven, as the talker draws them, one is coarse, two are middle,
four are fine. A fine code is a *latent* of `hop` / 4 samples.

Shapes: B windows, W frames, 7 codes, L = 4 * W latents, N = W * hop samples.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self, cast

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn.utils import parametrize

from talkahead.audio.noise import Noise
from talkahead.errors import ArtifactMismatch, TalkaheadError
from talkahead.families.contracts import CodecWindow, Decoded, Frames, Samples
from talkahead.families.equal_widths import decoded_by_width, new_part
from talkahead.families.library import library
from talkahead.families.library_weights import fill, present, torch_state
from talkahead.families.silence import silent_frame
from talkahead.speech_format import SpeechFormat
from talkahead.weights import load_float32

if TYPE_CHECKING:
    from snac import SNAC

CONFIG, WEIGHTS = "config.json", "model.safetensors"
_LEVELS = ([0], [1, 4], [2, 3, 5, 6])
"""Places of the coarse, the middle and the fine codes in a frame."""
_CODES = 7
_STRIDES = [4, 2, 1]
_RESIDUAL_REACH = 3 * (1 + 3 + 9)
"""Of a block's three convolutions of seven taps, in its own samples."""


def convert_weights(source: Path, folder: Path) -> None:
    """Writes a published SNAC folder (`config.json`, `pytorch_model.bin`) as `SnacCodec.load` reads it."""
    weights = present(source / "pytorch_model.bin")
    state = torch_state(weights)
    _checked(source / CONFIG, weights, lambda _: state)
    shutil.copyfile(source / CONFIG, folder / CONFIG)
    save_file({name: value.contiguous() for name, value in state.items()}, folder / WEIGHTS)


class _Frames:
    """Which frames of their utterances the decoder is at, int64 [B, W]: told before each call of it."""

    numbers: Tensor


class _KeyedNoise(nn.Module):
    """SNAC's noise block with noise that is keyed by the frame: the same however an utterance is cut.

    Args:
        linear: what the block shapes its noise with.
        place, count: which one of the decoder's noise blocks.
        size: samples of a frame at this block's rate.
    """

    def __init__(self, linear: nn.Module, frames: _Frames, place: int, count: int, size: int) -> None:
        super().__init__()
        self.linear, self._frames = linear, frames
        self._place, self._count = place, count
        self._noise = Noise(subframes=1, size=size)

    def forward(self, signal: Tensor) -> Tensor:
        noise = self._noise(self._frames.numbers * self._count + self._place)  # (B, W, size)
        shaped: Tensor = noise.flatten(1)[:, None].to(signal.dtype) * self.linear(signal)
        return signal + shaped


class SnacCodec:
    """Codec of the family `orpheus`.

    Args:
        model: a `snac.SNAC` with its weights.
        can_encode: its encoder's weights are here as well.
    """

    def __init__(self, model: SNAC, device: torch.device, can_encode: bool = True) -> None:
        if model.vq_strides != _STRIDES or model.attn_window_size is not None:
            raise ArtifactMismatch(
                f"{CONFIG}: vq_strides {model.vq_strides}, attn_window_size {model.attn_window_size}; "
                f"allowed: {_STRIDES}, null: three codebooks, and no attention, as snac_24khz has them"
            )
        self._frames, self.can_encode, self._device = _Frames(), can_encode, device
        _key_noise(_blocks(model), self._frames)
        for part in [part for part in model.modules() if parametrize.is_parametrized(part, "weight")]:
            parametrize.remove_parametrizations(part, "weight")
        self.model = model.to(device).eval().requires_grad_(False)

    @classmethod
    def load(cls, folder: Path, device: torch.device) -> Self:
        """Reads what `convert_weights` wrote; the encoder's tensors may be missing.

        Raises:
            ArtifactMismatch: others are missing, or unknown, or it is another kind of SNAC.
        """
        model, can_encode = _checked(folder / CONFIG, folder / WEIGHTS, load_float32)
        return cls(model, device, can_encode)

    @property
    def hop(self) -> int:
        return int(self.model.hop_length) * _STRIDES[0]

    @property
    def reach_frames(self) -> int:
        """Frames before and behind a frame that are heard in it."""
        return math.ceil(_reach([_rate(block) for block in _blocks(self.model)]) / self.hop)

    def speech_format(
        self, max_positions: int, segment_positions: int, silence: tuple[int, ...] | None = None
    ) -> SpeechFormat:
        """`silence` is what the encoder makes of it where it is not told."""
        return SpeechFormat(
            family="orpheus",
            sample_rate_hz=self.model.sampling_rate,
            hop=self.hop,
            codebooks=(self.model.codebook_size,) * _CODES,
            context_frames=self.reach_frames,
            lookahead_frames=self.reach_frames,
            silence=silence or silent_frame(self, 16 * self.hop),
            max_positions=max_positions,
            segment_positions=segment_positions,
            has_encoder=self.can_encode,
            steps_per_frame=_CODES,
        )

    def decode(self, windows: Sequence[CodecWindow], carries: Sequence[object | None]) -> list[Decoded]:
        """Nothing is carried. A CPU decodes windows one by one: together they take more time (their tensors
        outgrow what the allocator keeps), and alone they are the same to the bit in any company.
        """
        audio = decoded_by_width(windows, self.samples, most=1 if self._device.type == "cpu" else None)
        return [Decoded(new_part(*each, self.hop), None) for each in zip(windows, audio, strict=True)]

    @torch.inference_mode()
    def samples(self, frames: Tensor, firsts: Sequence[int]) -> Tensor:
        """All samples [B, N] of windows int64 [B, W, 7], whose first frames are those of number `firsts`."""
        codes = frames.to(self._device)
        places = torch.arange(frames.shape[1], device=self._device)
        self._frames.numbers = torch.tensor(firsts, device=self._device)[:, None] + places
        decoded: Tensor = self.model.decode([codes[:, :, level].flatten(1) for level in _LEVELS])
        return decoded[:, 0]

    @torch.inference_mode()
    def encode(self, audio: Samples) -> Frames:
        if not self.can_encode:
            raise TalkaheadError(
                f"{WEIGHTS} holds no encoder; import the checkpoint with SNAC's whole weights to speak like "
                "a recording"
            )
        parameter = next(self.model.parameters())
        levels = self.model.encode(torch.from_numpy(audio).to(parameter)[None, None])
        frames = np.empty((levels[0].shape[1], _CODES), np.int32)
        for places, codes in zip(_LEVELS, levels, strict=True):
            frames[:, places] = codes[0].reshape(len(frames), len(places)).cpu().numpy()
        return frames[: len(audio) // self.hop]


load_codec = SnacCodec.load


def _checked(config: Path, weights: Path, read: Callable[[Path], Mapping[str, Tensor]]) -> tuple[SNAC, bool]:
    """A model with its weights, and whether its encoder's are there as well."""
    try:
        model = library("snac").SNAC(**json.loads(present(config).read_text(encoding="utf-8")))
    except (TypeError, ValueError) as error:
        raise ArtifactMismatch(f"{config} is not SNAC's: {error}") from error
    return model, fill(model, read(weights), weights, _only_encodes)


def _blocks(model: SNAC) -> list[nn.Sequential]:
    """The decoder's blocks, each of which raises the rate: activation, convolution, noise, the rest."""
    return [part.block for part in model.decoder.model if hasattr(part, "block")]


def _rate(block: nn.Sequential) -> int:
    return cast(nn.ConvTranspose1d, block[1]).stride[0]


def _key_noise(blocks: Sequence[nn.Sequential], frames: _Frames) -> None:
    """Gives the blocks noise that is keyed by `frames`, where they have any."""
    size = _STRIDES[0]
    for place, block in enumerate(blocks):
        size *= _rate(block)
        if isinstance(linear := getattr(block[2], "linear", None), nn.Module):
            block[2] = _KeyedNoise(linear, frames, place, len(blocks), size)


def _reach(rates: Sequence[int]) -> int:
    """Samples that a latent is heard in before its own, and behind them."""
    reach = 3
    for rate in rates:
        before = math.ceil(rate / 2)
        reach = reach * rate + max(before, rate - before) + _RESIDUAL_REACH
    return reach + 3


def _only_encodes(name: str) -> bool:
    return name.startswith("encoder.") or ".in_proj." in name
