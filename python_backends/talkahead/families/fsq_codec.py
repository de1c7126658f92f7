"""The codecs of one code a frame that transformers has: XCodec2, and NeuCodec, which was made of it.

Each sample of their decoder hears all of its window (attention without an end, norms over time), so windows
of one utterance agree only nearly where they overlap, and are cross-faded there.

Shapes: B windows, W frames, N samples.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self, cast

import torch
from safetensors import safe_open
from torch import Tensor, nn

from talkahead.backbone import cuda_graphs
from talkahead.backbone.recorded_function import RecordedFunction
from talkahead.backbone.strict_fields import StrictFields
from talkahead.config import AUTO
from talkahead.errors import ArtifactMismatch, TalkaheadError
from talkahead.families.contracts import TORCH, CodecWindow, Decoded, Frames, Samples
from talkahead.families.cross_fade import cross_fade
from talkahead.families.cut_alike import decoded_alike
from talkahead.families.fsq_network import LISTENER, NETWORK, FsqListener, FsqNetwork
from talkahead.families.library import library
from talkahead.families.library_weights import fill, present
from talkahead.families.network_engines import Network, choose_engine, load_network
from talkahead.families.onnx_network import ONNXRUNTIME
from talkahead.families.openvino_network import OPENVINO
from talkahead.families.silence import silent_frame
from talkahead.families.tensorrt_network import TENSORRT
from talkahead.speech_format import SpeechFormat

if TYPE_CHECKING:
    from talkahead.families.fsq_network import FsqModel

CONFIG, WEIGHTS = "config.json", "model.safetensors"
_SPEAKING = ("quantizer", "acoustic_decoder")
_QUANTIZING = ("fc_encoder", "quantizer")
_SILENCE_FRAMES = 50


class FsqCodec:
    """`Codec` over a folder as transformers' `save_pretrained` writes it.

    A third of the model speaks and the rest hears. Names and shapes of all tensors are checked at once, but
    each part is loaded when it is first used, for the servers use one of them each.

    Raises:
        ArtifactMismatch: the folder holds another codec, or not the tensors that its configuration asks for;
            those that hear may be missing.
    """

    family: ClassVar[str]
    model_name: ClassVar[str]
    context_frames = 50
    lookahead_frames = 5
    """With random weights of the published size, windows are so 16.8 dB from the whole, 17.9 with 100 frames
    back, 17.4 with 13 ahead (the reach of convolutions and overlaps). Each one ahead delays the first chunk.
    """

    def __init__(self, folder: Path, device: torch.device, engine: str = TORCH) -> None:
        self._folder, self._device = folder, device
        on_cpu, on_gpu = (OPENVINO, ONNXRUNTIME, TORCH), (TORCH, TENSORRT)
        self._engine = choose_engine(engine, on_cpu, device, folder, NETWORK, on_gpu)
        hearing = engine if engine in (TORCH, ONNXRUNTIME) else AUTO
        self._hearing = choose_engine(hearing, (ONNXRUNTIME, TORCH), device, folder, LISTENER)
        self._model_class = getattr(library("transformers"), self.model_name)
        kind = StrictFields.of_file(present(folder / CONFIG)).take("model_type")
        if kind != self._model_class.config_class.model_type:
            raise ArtifactMismatch(
                f"{folder / CONFIG}: model_type is {kind!r}; allowed: "
                f"{self._model_class.config_class.model_type!r}, as transformers writes it"
            )
        self.config = self._model_class.config_class.from_pretrained(folder)
        with torch.device("meta"):
            self._skeleton = self._model_class(self.config)
            self._shape_decoder(self._skeleton.acoustic_decoder)
        self._skeleton.to("meta")  # the library puts a tensor elsewhere
        # The inverse transform, without the layer that makes what is transformed.
        self._head = type(self._skeleton.acoustic_decoder.head)(self.config).to(device)
        self._head.linear = nn.Identity()
        self._path = present(folder / WEIGHTS)
        self.can_encode = fill(
            self._skeleton, _shapes(self._path), self._path, lambda name: not name.startswith(_SPEAKING)
        )

    @classmethod
    def convert(cls, source: Path, folder: Path) -> None:
        """Takes what is read of a downloaded folder, as it is; raises as a codec that is made of it would."""
        cls(source, torch.device("cpu"))
        for name in (CONFIG, WEIGHTS):
            shutil.copyfile(source / name, folder / name)

    @classmethod
    def load(cls, folder: Path, device: torch.device, engine: str = AUTO) -> Self:
        return cls(folder, device, engine)

    @property
    def precision(self) -> torch.dtype:
        return self._network.precision

    @property
    def sample_rate_hz(self) -> int:
        """Of the audio, in and out."""
        raise NotImplementedError

    @property
    def hop(self) -> int:
        return int(self.config.hop_length)

    @property
    def encoder_hop(self) -> int:
        """Samples of a frame as the encoder hears it."""
        return self.hop

    @property
    def num_features(self) -> int:
        """Of a frame, as the semantic encoder is given them."""
        return int(self.config.semantic_model_config.feature_projection_input_dim)

    def speech_format(
        self, max_positions: int, segment_positions: int, silence: tuple[int, ...] | None = None
    ) -> SpeechFormat:
        """`silence` is what the encoder makes of it where it is not told."""
        return SpeechFormat(
            family=self.family,
            sample_rate_hz=self.sample_rate_hz,
            hop=self.hop,
            codebooks=(math.prod(self.config.quantization_levels),),
            context_frames=self.context_frames,
            lookahead_frames=self.lookahead_frames,
            silence=silence or silent_frame(self, _SILENCE_FRAMES * self.hop),
            max_positions=max_positions,
            segment_positions=segment_positions,
            has_encoder=self.can_encode,
            joins_segments=True,
        )

    def decode(self, windows: Sequence[CodecWindow], states: Sequence[object | None]) -> list[Decoded]:
        """A state is what the window before made of the first frame of its look-ahead, [hop]."""
        audio = decoded_alike(windows, lambda frames, _: self.samples(frames))
        return [self._joined(*each) for each in zip(windows, audio, states, strict=True)]

    def _joined(self, window: CodecWindow, samples: Samples, state: object | None) -> Decoded:
        after = (window.context + window.new) * self.hop
        new = samples[window.context * self.hop : after].copy()
        if state is not None:
            new[: self.hop] = cross_fade(cast(Samples, state), new[: self.hop])
        tail = samples[after : after + self.hop].copy() if window.lookahead else None
        return Decoded(new.clip(-1.0, 1.0), tail)

    @torch.inference_mode()
    def samples(self, frames: Tensor) -> Tensor:
        """All samples [B, W * hop] of windows int64 [B, W, 1]."""
        (audio,) = self._speak(frames.to(self._device))
        return audio[:, 0]

    @torch.inference_mode()
    def encode(self, audio: Samples) -> Frames:
        hidden = torch.cat(self.hear(audio)[::-1], dim=1).mT
        condense, quantizer = self._quantizing
        codes: Tensor = quantizer(condense(hidden))[1]  # (1, W, 1), the last of what was appended
        return codes[0, : len(audio) // self.hop].to("cpu", torch.int32).numpy()

    @torch.inference_mode()
    def hear(self, audio: Samples) -> tuple[Tensor, Tensor]:
        """What the acoustic and the semantic encoder make of a recording, each [1, D, W]."""
        heard, features = self._heard(audio)
        given = torch.from_numpy(heard)[None, None].to(self._device), features.to(self._device)
        acoustic, semantic = self._listener(*given)
        frames = min(acoustic.shape[-1], semantic.shape[-1])
        return acoustic[..., :frames], semantic[..., :frames]

    def _heard(self, audio: Samples) -> tuple[Samples, Tensor]:
        """What the acoustic encoder hears of a recording, [N], and the semantic one, [1, W, 160]."""
        raise NotImplementedError

    def _shape_decoder(self, decoder: nn.Module) -> None:
        """Makes the library's decoder the one that the configuration names, before it gets its weights."""

    @cached_property
    def _speak(self) -> RecordedFunction:
        """Samples [B, 1, N] of codes."""

        def speak(codes: Tensor) -> tuple[Tensor]:
            (spectra,) = self._network(codes)
            return (self._head(spectra),)

        return RecordedFunction(
            speak, cuda_graphs.recorder_on(self._device) if self._engine == TORCH else None
        )

    @cached_property
    def _network(self) -> Network:
        return (
            FsqNetwork(self.decoder())
            if self._engine == TORCH
            else load_network(self._engine, self._folder, NETWORK)
        )

    def decoder(self) -> FsqModel:
        """The library's model, of which only what speaks is really there."""
        model = self._skeleton
        for name in _SPEAKING:
            setattr(model, name, type(getattr(model, name))(self.config))
        self._shape_decoder(model.acoustic_decoder)
        model.load_state_dict(_tensors(self._path, _SPEAKING), strict=False)
        for name in _SPEAKING:
            getattr(model, name).to(self._device)
        return cast("FsqModel", model.eval().requires_grad_(False))

    @cached_property
    def _listener(self) -> Network:
        if not self.can_encode:
            raise TalkaheadError(
                f"{self._path} holds no whole encoder; import the checkpoint with all its weights to speak "
                "like a recording"
            )
        if self._hearing != TORCH:
            return load_network(self._hearing, self._folder, LISTENER)
        return FsqListener(self.encoder())

    def encoder(self) -> FsqModel:
        """The library's model without what speaks."""
        # The causal decoder has other shapes than the library's; none is needed here.
        model = self._model_class.from_pretrained(
            self._folder, dtype=torch.float32, ignore_mismatched_sizes=True
        )
        model.acoustic_decoder = nn.Identity()
        return cast("FsqModel", model.to(self._device).eval().requires_grad_(False))

    @cached_property
    def _quantizing(self) -> tuple[nn.Module, nn.Module]:
        """From what is heard to codes: the layer that brings both encoders together, and the quantizer."""
        parts = nn.ModuleDict(
            {
                "fc_encoder": nn.Linear(*reversed(self._skeleton.fc_encoder.weight.shape)),
                "quantizer": type(self._skeleton.quantizer)(self.config),
            }
        )
        parts.load_state_dict(_tensors(self._path, _QUANTIZING), strict=False)
        parts = parts.to(self._device).eval().requires_grad_(False)
        return parts["fc_encoder"], parts["quantizer"]


def _shapes(path: Path) -> dict[str, Tensor]:
    """The file's tensors, without their values."""
    with safe_open(path, "pt") as file:
        shapes = {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118
    return {name: torch.empty(shape, device="meta") for name, shape in shapes.items()}


def _tensors(path: Path, parts: tuple[str, ...]) -> dict[str, Tensor]:
    with safe_open(path, "pt") as file:
        return {name: file.get_tensor(name).float() for name in file.keys() if name.startswith(parts)}  # noqa: SIM118


def semantic_features(audio: Samples) -> Tensor:
    """Log-mel features [1, W, 160] of 16 kHz audio, as w2v-bert-2.0 was trained on them."""
    extract = library("transformers").SeamlessM4TFeatureExtractor()
    features: Tensor = extract(audio, sampling_rate=16_000, return_tensors="pt")["input_features"]
    return features
