"""`vocoder`: windows of all streams to PCM, and an acknowledgement of each.

Shapes: W frames of a window, C codebooks.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from time import perf_counter

import numpy as np
import numpy.typing as npt

from talkahead.config import AUTO, ModelConfig
from talkahead.errors import BadRequest
from talkahead.families.contracts import NO_WORDS, CodecWindow, Decoded, Samples, Words
from talkahead.families.registry import load_family
from talkahead.serving.artifacts import verified
from talkahead.serving.codec_states import CodecStates
from talkahead.serving.decode_cost import DecodeCost
from talkahead.serving.model_device import claim_device
from talkahead.serving.triton_api import Array, InferenceRequest, TritonApi, Wire
from talkahead.serving.urgent_stream import UrgentStream
from talkahead.speech_format import SpeechFormat
from talkahead.telemetry import VocoderTelemetry
from talkahead.transport.messages import PassBegun, WindowDone
from talkahead.transport.senders import AcknowledgementSender
from talkahead.types import WORD_BEGIN, WindowHeader

_WIDTH_STEP = 16
"""Windows whose widths fall into one step of this many frames are decoded together, with little padding."""
_QUICK_S = 0.1
"""A pass that takes less is over before the talker would wonder, and is not announced."""
_WARM_UP_FRAMES = (3, 16, 40)
_WARM_UP_WINDOWS = 4


@dataclass(frozen=True)
class _Window:
    """One request: frames int32 [W, C], its header and totals, the words that begin in it, and where its
    answer goes."""

    request: InferenceRequest
    header: WindowHeader
    frames: npt.NDArray[np.int32]
    stats: Array
    words: Words

    @property
    def width_group(self) -> int:
        return -(-len(self.frames) // _WIDTH_STEP)

    @property
    def part(self) -> CodecWindow:
        header = self.header
        return CodecWindow(
            *(self.frames.astype(np.int64), header.context, header.new, header.lookahead),
            *(header.position, header.speed / 1_000, header.voice),
        )


class VocoderServer:
    """The serve loop of `vocoder`."""

    def __init__(self, api: TritonApi, config: ModelConfig) -> None:
        self._wire = Wire(api)
        self._telemetry = VocoderTelemetry(api)
        device = claim_device(config, "vocoder")
        speech = SpeechFormat.read(verified(config.folder))
        self._codec = load_family(speech.family).codec(
            config.folder, device, config.parameters.get("engine", AUTO)
        )
        self._codebooks = np.array(speech.codebooks)
        self._rate = np.array([speech.sample_rate_hz], np.int32)
        self._urgent = UrgentStream(device)
        self._states = CodecStates()
        self._acknowledgements = AcknowledgementSender()
        self._cost = DecodeCost()
        self._warm_up(np.array(speech.silence), min(_WARM_UP_WINDOWS, config.max_batch_size))

    def execute(self, requests: Sequence[InferenceRequest]) -> None:
        """Answers through the senders, so that a window is acknowledged after its audio has left."""
        windows = [window for request in requests if (window := self._read(request)) is not None]
        for together in self._passes(windows):
            if sound := self._sound(together):
                self._announce(sound, windows)
                self._speak(sound)

    def close(self) -> None:
        self._acknowledgements.close()
        self._telemetry.close()

    def _warm_up(self, silence: npt.NDArray[np.int64], most: int) -> None:
        """Decodes as it will for requests, and measures that; but not the first time, which loads weights."""

        def decode(windows: int, width: int) -> float:
            window = CodecWindow(np.tile(silence, (width, 1)), 0, width, 0, 0)
            began = perf_counter()
            self._codec.decode([window] * windows, [None] * windows)
            return perf_counter() - began

        decode(1, _WARM_UP_FRAMES[0])
        for width in _WARM_UP_FRAMES:
            self._cost.add(1, width, decode(1, width))
            if (together := self._cost.windows_of_a_pass(width, most)) > 1:
                self._cost.add(together, width, decode(together, width))

    def _passes(self, windows: Sequence[_Window]) -> Iterable[list[_Window]]:
        """The parts of a batch that are decoded together, narrow windows first: they are first chunks, and on
        a device their pass does not wait for the others'. Answers leave in Triton's order all the same; who
        waits for whom is settled before, by what the talker lets into the queue."""
        for together in _rounds(windows):
            for group in sorted({window.width_group for window in together}):
                alike = [window for window in together if window.width_group == group]
                size = self._cost.windows_of_a_pass(_width(alike), len(alike))
                yield from (alike[first : first + size] for first in range(0, len(alike), size))

    def _read(self, request: InferenceRequest) -> _Window | None:
        """None where it cannot be read, which is told to whom it can be told."""
        header = None
        try:
            header = WindowHeader.from_array(self._wire.array(request, "WINDOW"))
            tensors = (self._wire.array(request, name) for name in ("FRAMES", "STATS", "WORDS"))
            return _Window(request, header, *tensors)
        except Exception as error:
            self._wire.refuse(f"window {header}", request.get_response_sender(), error)
            if header is not None:
                self._acknowledge(header, ok=False)
            return None

    def _sound(self, windows: Iterable[_Window]) -> list[_Window]:
        """Those of a pass whose frames are of the codebooks. The others fail here, for a codec may decode
        codes that it does not have to anything, and one that raises would have all decoded one by one.
        """
        sound = []
        for window in windows:
            try:
                _check_frames(window.frames, self._codebooks)
            except BadRequest as error:
                self._wire.note(f"window {window.header}", error)
                self._answer(window, None, seconds=0.0)
            else:
                sound.append(window)
        return sound

    def _announce(self, windows: list[_Window], batch: Sequence[_Window]) -> None:
        """To every talker of the batch: no word from here for a while does not mean that all is over."""
        seconds = self._cost.seconds(len(windows), _width(windows))
        if seconds >= _QUICK_S:
            for address, sequence in _oldest(batch).items():
                self._acknowledgements.send(address, PassBegun(sequence, seconds))

    def _speak(self, windows: list[_Window]) -> None:
        began = perf_counter()
        is_urgent = any(window.header.chunk == 0 for window in windows)
        with self._urgent.entered() if is_urgent else nullcontext():
            decoded = self._decoded(windows)
        seconds = perf_counter() - began
        self._telemetry.decoded(len(windows), seconds, is_urgent=is_urgent)
        self._cost.add(len(windows), _width(windows), seconds)
        for window, one in zip(windows, decoded, strict=True):
            self._answer(window, one, seconds / len(windows))

    def _decoded(self, windows: list[_Window]) -> Sequence[Decoded | None]:
        """Of each window; None where it failed. A failed batch is tried one by one."""
        try:
            states = [self._states.of(window.header) for window in windows]
            return self._codec.decode([window.part for window in windows], states)
        except Exception as error:
            if len(windows) == 1:
                self._wire.note(f"window {windows[0].header}", error)
                return [None]
            return [one for window in windows for one in self._decoded([window])]

    def _answer(self, window: _Window, decoded: Decoded | None, seconds: float) -> None:
        """A failed window is an empty chunk and a negative acknowledgement: the talker ends its stream.

        Each must be ended, for Triton keeps their order: one that is not holds up all that come after it.

        Args:
            seconds: that its decoding took.
        """
        if decoded is not None:
            self._states.keep(window.header, decoded.state)
        is_sent = self._wire.end(
            f"window {window.header}",
            window.request.get_response_sender(),
            partial(self._response, window, decoded),
            partial(self._response, window, None),
        )
        self._acknowledge(window.header, ok=is_sent and decoded is not None, seconds=seconds)

    def _response(self, window: _Window, decoded: Decoded | None) -> object:
        header = window.header
        audio = np.zeros(0, np.float32) if decoded is None else decoded.audio
        return self._wire.response(
            AUDIO=audio,
            SAMPLE_RATE=self._rate,
            CHUNK_INDEX=np.array([header.chunk], np.int32),
            IS_LAST=np.array([header.last == 1 and decoded is not None]),
            STATS=window.stats,
            WORDS=_in_samples(window.words, header.new, audio),
        )

    def _acknowledge(self, header: WindowHeader, ok: bool, seconds: float = 0.0) -> None:
        done = WindowDone(header.stream, header.generation, header.chunk, ok, seconds)
        self._acknowledgements.send(header.address, done)


def _in_samples(words: Words, frames: int, audio: Samples) -> Words:
    """Words of a window of so many new frames as words of their audio; none of no audio."""
    if not len(audio):
        return NO_WORDS
    heard = words.copy()
    heard[:, WORD_BEGIN] = words[:, WORD_BEGIN] * len(audio) // frames
    return heard


def _check_frames(frames: npt.NDArray[np.int32], codebooks: npt.NDArray[np.int64]) -> None:
    """Raises BadRequest for the first code that its codebook does not have, or frames of other codebooks.

    Args:
        codebooks: size of each [C].
    """
    if frames.shape != (len(frames), len(codebooks)):
        raise BadRequest("FRAMES", list(frames.shape), f"the shape [{len(frames)}, {len(codebooks)}]")
    is_unknown = (frames < 0) | (frames >= codebooks)
    if is_unknown.any():
        frame, book = np.argwhere(is_unknown)[0]
        raise BadRequest(f"FRAMES[{frame}, {book}]", int(frames[frame, book]), f"0 to {codebooks[book] - 1}")


def _width(windows: Sequence[_Window]) -> int:
    """Of a pass: its widest window's."""
    return max(len(window.frames) for window in windows)


def _oldest(windows: Sequence[_Window]) -> dict[int, int]:
    """The lowest sequence of each talker's windows, by its address."""
    oldest: dict[int, int] = {}
    for header in (window.header for window in windows):
        oldest[header.address] = min(header.sequence, oldest.get(header.address, header.sequence))
    return oldest


def _rounds(windows: Sequence[_Window]) -> Iterable[list[_Window]]:
    """The first window of each stream, then the second ones, and so on: each needs what one before left."""
    rounds: dict[int, list[_Window]] = defaultdict(list)
    seen: Counter[tuple[int, int, int]] = Counter()
    for window in sorted(windows, key=lambda window: window.header.chunk):
        rounds[seen[window.header.stream_key]].append(window)
        seen[window.header.stream_key] += 1
    return rounds.values()
