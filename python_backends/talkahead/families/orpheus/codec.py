"""SNAC as a `Codec`: windows that cover its receptive field decode to the very samples of the whole.

Its codes come in three rates: of a frame's seven, as the talker draws them, one is coarse, two are middle,
four are fine. A fine code is a *latent* of `hop` / 4 samples.

Shapes: B windows, W frames, 7 codes, N samples.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.nn.utils import parametrize

from talkahead.backbone import cuda_graphs
from talkahead.config import AUTO
from talkahead.errors import ArtifactMismatch, TalkaheadError
from talkahead.families.contracts import TORCH, CodecWindow, Decoded, Frames, Samples
from talkahead.families.cut_alike import decoded_alike
from talkahead.families.library import library
from talkahead.families.library_weights import fill, present, torch_state
from talkahead.families.network_engines import Network, choose_engine, load_network
from talkahead.families.onnx_network import ONNXRUNTIME
from talkahead.families.orpheus.snac_layout import SnacLayout
from talkahead.families.orpheus.snac_network import LEVELS, SnacNetwork
from talkahead.families.recorded_network import RecordedNetwork
from talkahead.families.silence import silent_frame
from talkahead.speech_format import SpeechFormat
from talkahead.weights import load_float32

if TYPE_CHECKING:
    from snac import SNAC

CONFIG, WEIGHTS = "config.json", "model.safetensors"
_CODES = 7
_STRIDES = [4, 2, 1]


def convert_weights(source: Path, folder: Path) -> None:
    """Writes a published SNAC folder (`config.json`, `pytorch_model.bin`) as `SnacCodec.load` reads it."""
    weights = present(source / "pytorch_model.bin")
    state = torch_state(weights)
    _checked(source / CONFIG, weights, lambda _: state)
    shutil.copyfile(source / CONFIG, folder / CONFIG)
    save_file({name: value.contiguous() for name, value in state.items()}, folder / WEIGHTS)


class SnacCodec:
    """Codec of the family `orpheus`.

    Args:
        model: a `snac.SNAC` with its weights.
        can_encode: its encoder's weights are here as well.
        load: what decodes instead of the model, when it is first asked for.
    """

    def __init__(
        self,
        model: SNAC,
        device: torch.device,
        can_encode: bool = True,
        load: Callable[[], Network] | None = None,
    ) -> None:
        if model.vq_strides != _STRIDES or model.attn_window_size is not None:
            raise ArtifactMismatch(
                f"{CONFIG}: vq_strides {model.vq_strides}, attn_window_size {model.attn_window_size}; "
                f"allowed: {_STRIDES}, null: three codebooks, and no attention, as snac_24khz has them"
            )
        self.layout, self.can_encode, self._device = SnacLayout.of(model), can_encode, device
        for part in [part for part in model.modules() if parametrize.is_parametrized(part, "weight")]:
            parametrize.remove_parametrizations(part, "weight")
        self.model = model.to(device).eval().requires_grad_(False)
        self._load = load or self.network

    @classmethod
    def load(cls, folder: Path, device: torch.device, engine: str = AUTO) -> Self:
        """Reads what `convert_weights` wrote; the encoder's tensors may be missing.

        Raises:
            ArtifactMismatch: others are missing, or unknown, or it is another kind of SNAC.
        """
        model, can_encode = _checked(folder / CONFIG, folder / WEIGHTS, load_float32)
        file = SnacLayout.of(model).file
        chosen = choose_engine(engine, (ONNXRUNTIME, TORCH), device, folder, file)
        other = None if chosen == TORCH else partial(load_network, chosen, folder, file)
        return cls(model, device, can_encode, other)

    @property
    def precision(self) -> torch.dtype:
        return self._network.precision

    def network(self) -> SnacNetwork:
        """The model's own."""
        return SnacNetwork(self.model)

    @cached_property
    def _network(self) -> Network:
        network, recorder = self._load(), cuda_graphs.recorder_on(self._device)
        if recorder is None or not isinstance(network, SnacNetwork):
            return network
        return RecordedNetwork(network, recorder, shared=range(1, 1 + len(network.blocks)))

    @property
    def hop(self) -> int:
        return self.layout.hop

    @property
    def reach_frames(self) -> int:
        """Frames before and after a frame that are heard in it."""
        return self.layout.reach_frames

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

    def decode(self, windows: Sequence[CodecWindow], states: Sequence[object | None]) -> list[Decoded]:
        """Nothing is carried. A CPU decodes windows one by one: together they take more time (their tensors
        outgrow what the allocator keeps), and alone they are the same to the bit in any company.
        """
        audio = decoded_alike(windows, self._new_samples, most=1 if self._device.type == "cpu" else None)
        return [Decoded(samples, None) for samples in audio]

    def _new_samples(self, frames: Tensor, windows: Sequence[CodecWindow]) -> Tensor:
        one, hop = windows[0], self.hop
        firsts = [window.position - window.context for window in windows]
        return self.samples(frames, firsts, range(one.context * hop, (one.context + one.new) * hop))

    @torch.inference_mode()
    def samples(self, frames: Tensor, firsts: Sequence[int], heard: range | None = None) -> Tensor:
        """Audio [B, N] of windows int64 [B, W, 7], whose first frames are those of number `firsts`.

        Args:
            heard: which samples of each; None: all of them.
        """
        width = frames.shape[1]
        heard = heard or range(width * self.hop)
        given = self.layout.given(heard, width)
        numbers = torch.tensor(firsts)[:, None] + torch.arange(width)
        told = self.layout.told(numbers.to(self._device), given)
        (audio,) = self._network(*(one.to(self._device) for one in (frames, *told)))
        start = heard.start - given[-1].start * self.layout.rates[-1]
        return audio[:, start : start + len(heard)]

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
        for places, codes in zip(LEVELS, levels, strict=True):
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


def _only_encodes(name: str) -> bool:
    return name.startswith("encoder.") or ".in_proj." in name
