"""`vocoder`: windows of all streams to PCM; keeps nothing between windows, and acknowledges each.

Shapes: B windows, W frames of the longest, C codebooks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import torch

from talkahead.audio.codec import Codec
from talkahead.config import ModelConfig
from talkahead.serving.artifacts import verified
from talkahead.serving.model_device import claim_device
from talkahead.serving.triton_api import Array, InferenceRequest, TritonApi, Wire
from talkahead.telemetry import Telemetry
from talkahead.transport.messages import WindowDone
from talkahead.transport.senders import AcknowledgementSender
from talkahead.types import WindowHeader

_WIDTH_STEP = 16
"""Windows whose widths fall into one step of this many frames are decoded together, with little padding."""
_WARM_UP_FRAMES = (3, 16, 40)


@dataclass(frozen=True)
class _Window:
    """One request: frames int32 [W, C], its header and totals, and where its answer goes."""

    request: InferenceRequest
    header: WindowHeader
    frames: npt.NDArray[np.int32]
    stats: Array

    @property
    def width_group(self) -> int:
        return -(-len(self.frames) // _WIDTH_STEP)


class VocoderServer:
    """The serve loop of `vocoder`."""

    def __init__(self, api: TritonApi, config: ModelConfig) -> None:
        self._wire = Wire(api)
        self._telemetry = Telemetry(api, "vocoder", ("vocoder",))
        self._device = claim_device(config, "vocoder")
        self._codec = Codec.load(verified(config.folder)).to(self._device)
        self._hop = self._codec.config.hop
        self._rate = np.array([self._codec.config.sample_rate_hz], np.int32)
        self._acknowledgements = AcknowledgementSender()
        for width in _WARM_UP_FRAMES:
            for batch in (1, min(4, config.max_batch_size)):
                self._decode([np.zeros((width, 1), np.int32)] * batch, [0] * batch, 0)

    def execute(self, requests: Sequence[InferenceRequest]) -> None:
        """Answers through the senders, so that a window is acknowledged after its audio has left."""
        windows = [window for request in requests if (window := self._read(request)) is not None]
        # Narrow windows first: they are first chunks.
        for group in sorted({window.width_group for window in windows}):
            self._speak([window for window in windows if window.width_group == group])

    def close(self) -> None:
        self._acknowledgements.close()
        self._telemetry.close()

    def _read(self, request: InferenceRequest) -> _Window | None:
        """None where it cannot be read, which is told to whom it can be told."""
        header = None
        try:
            header = WindowHeader.from_array(self._wire.array(request, "WINDOW"))
            return _Window(
                request, header, self._wire.array(request, "FRAMES"), self._wire.array(request, "STATS")
            )
        except Exception as error:
            self._wire.refuse(f"window {header}", request.get_response_sender(), error)
            if header is not None:
                self._acknowledge(header, ok=False)
            return None

    def _speak(self, windows: list[_Window]) -> None:
        with self._telemetry.timed("vocoder"):
            audio = self._audio(windows)
        for window, samples in zip(windows, audio, strict=True):
            self._answer(window, samples)

    def _audio(self, windows: list[_Window]) -> list[Array | None]:
        """Samples of each window's new part; None where it failed. A failed batch is tried one by one."""
        try:
            headers = [window.header for window in windows]
            first = min(header.context for header in headers)
            decoded = self._decode(
                [window.frames for window in windows], [header.phase for header in headers], first
            )
        except Exception as error:
            if len(windows) == 1:
                self._wire.note(f"window {windows[0].header}", error)
                return [None]
            return [samples for window in windows for samples in self._audio([window])]
        return [
            self._new_part(header, samples, first) for header, samples in zip(headers, decoded, strict=True)
        ]

    def _new_part(self, header: WindowHeader, samples: Array, first: int) -> Array:
        start = header.context - first
        return samples[start * self._hop : (start + header.new) * self._hop]

    def _answer(self, window: _Window, samples: Array | None) -> None:
        """A failed window is an empty chunk and a negative acknowledgement: the talker ends its stream.

        Each must be ended, for Triton keeps their order: one that is not holds up all that come after it.
        """
        is_sent = self._wire.end(
            f"window {window.header}",
            window.request.get_response_sender(),
            partial(self._response, window, samples),
            partial(self._response, window, None),
        )
        self._acknowledge(window.header, ok=is_sent and samples is not None)

    def _response(self, window: _Window, samples: Array | None) -> object:
        header = window.header
        return self._wire.response(
            AUDIO=np.zeros(0, np.float32) if samples is None else samples,
            SAMPLE_RATE=self._rate,
            CHUNK_INDEX=np.array([header.chunk], np.int32),
            IS_LAST=np.array([header.last == 1 and samples is not None]),
            STATS=window.stats,
        )

    def _acknowledge(self, header: WindowHeader, ok: bool) -> None:
        done = WindowDone(header.stream, header.generation, header.chunk, ok)
        self._acknowledgements.send(header.address, done)

    def _decode(self, frames: list[npt.NDArray[np.int32]], phases: list[int], first: int) -> list[Array]:
        """PCM float32 [(W - first) * hop] of each window from its frame `first` on, decoded as one padded
        batch; `phases` are those at the windows' first frames.
        """
        codes = np.zeros((len(frames), max(map(len, frames))), np.int64)  # (B, W)
        for row, window in zip(codes, frames, strict=True):
            row[: len(window)] = window[:, 0]
        ends = torch.tensor([len(window) for window in frames], device=self._device)
        if codes.size == 0:
            return [np.zeros(0, np.float32) for _ in frames]
        with torch.inference_mode():
            pcm = self._codec.decode_windows(
                torch.from_numpy(codes).to(self._device),
                torch.zeros_like(ends),
                ends,
                torch.tensor(phases, device=self._device),
                first,
            )  # (B, (W - first) * hop)
        return list(pcm.float().clamp(-1.0, 1.0).cpu().numpy())
