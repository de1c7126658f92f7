"""Clients of the gateway's doors, which take speech as it arrives and tell when: as thin as they can be.

Each utterance has a connection of its own over HTTP and WebSockets, which stands before the clock starts, as
those of agents do.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol
from urllib.parse import urlencode

import av
import grpc
import numpy as np
import numpy.typing as npt
from riva.client.proto import riva_tts_pb2, riva_tts_pb2_grpc
from riva.client.proto.riva_audio_pb2 import AudioEncoding
from talkahead_client import AudioChunk, StreamBroken
from talkahead_client.protocol import ParameterValue
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from perf.streams import Speaker
from perf.utterance import UNTOLD

RATE_HZ = 24_000
WORD_S = 0.02
"""From one written word to the next: as fast as language models write."""
_LIMIT_S = 30.0
"""For anything to arrive."""
_READ_BYTES = 1 << 16
_WAV_HEADER_BYTES = 44
_INNER_MARK = re.compile(r"[,;:.!?](?= )")

Audio = npt.NDArray[np.float32]
Piece = tuple[float, bytes]
"""When it arrived, on the clock of `time.perf_counter`, and what did."""


class Decoder(Protocol):
    """Bytes of a format, as they arrive, to samples."""

    def decode(self, data: bytes) -> Audio: ...


class Pcm:
    """16 bits, little-endian, after a header of so many bytes."""

    def __init__(self, header_bytes: int = 0) -> None:
        self._skip = header_bytes
        self._rest = b""

    def decode(self, data: bytes) -> Audio:
        data = self._rest + data
        skipped = min(self._skip, len(data))
        self._skip -= skipped
        end = skipped + (len(data) - skipped) // 2 * 2
        self._rest = data[end:]
        samples: Audio = np.frombuffer(data[skipped:end], "<i2").astype(np.float32) / 32_767
        return samples


def wav() -> Pcm:
    return Pcm(_WAV_HEADER_BYTES)


class Mp3:
    """By FFmpeg, whose parser gives a frame back when the next one begins."""

    def __init__(self) -> None:
        codec = av.CodecContext.create("mp3float", "r")
        assert isinstance(codec, av.AudioCodecContext)
        self._codec = codec

    def decode(self, data: bytes) -> Audio:
        frames = [frame for packet in self._codec.parse(data) for frame in self._codec.decode(packet)]
        parts = [frame.to_ndarray()[0] for frame in frames]
        return np.concatenate(parts).astype(np.float32) if parts else np.zeros(0, np.float32)


def mp3_delay_ms() -> float:
    """By how much what is decoded lags behind what was encoded: of the codec itself, whoever uses it, but for
    the first frame, in which nothing is heard yet, and which the door leaves out."""
    encoder = av.CodecContext.create("libmp3lame", "w")
    encoder.sample_rate, encoder.layout, encoder.format = RATE_HZ, "mono", "s16p"
    click = np.zeros((1, RATE_HZ), np.int16)
    click[0, RATE_HZ // 2] = 30_000
    frame = av.AudioFrame.from_ndarray(click, format="s16p", layout="mono")
    frame.sample_rate = RATE_HZ
    fifo = av.AudioFifo()
    fifo.write(frame)
    parts = [packet for part in fifo.read_many(encoder.frame_size) for packet in encoder.encode(part)]
    data = b"".join(map(bytes, [*parts, *encoder.encode(None)][1:]))
    place = int(np.argmax(np.abs(Mp3().decode(data))))
    return 1e3 * (place - RATE_HZ // 2) / RATE_HZ


class OpenAiDoor:
    """`POST /v1/audio/speech`.

    Args:
        address: `host:port`.
        response_format: as it is asked for.
        decoder: of that.
    """

    def __init__(self, address: str, response_format: str, decoder: Callable[[], Decoder] = Pcm) -> None:
        self._address = address
        self._form = {"response_format": response_format, "stream_format": "audio"}
        self._decoder = decoder

    def speak(self, text: str, *, voice: str, **parameters: ParameterValue) -> Iterator[AudioChunk]:
        body = {"model": "talkahead", "input": text, "voice": voice, **self._form, **parameters}
        connection = http.client.HTTPConnection(self._address, timeout=_LIMIT_S)
        with contextlib.closing(connection), _told():
            connection.connect()
            asked_s = time.perf_counter()
            connection.request("POST", "/v1/audio/speech", json.dumps(body).encode())
            response = connection.getresponse()
            if response.status != 200:
                raise StreamBroken(f"{response.status}: {response.read().decode(errors='replace')}")
            yield from chunks(asked_s, self._pieces(response), self._decoder())

    def _pieces(self, response: http.client.HTTPResponse) -> Iterator[Piece]:
        while data := response.read1(_READ_BYTES):
            yield time.perf_counter(), data


class OpenAiEvents(OpenAiDoor):
    """The same as server-sent events, of `pcm`."""

    def __init__(self, address: str) -> None:
        super().__init__(address, "pcm")
        self._form = {**self._form, "stream_format": "sse"}

    def _pieces(self, response: http.client.HTTPResponse) -> Iterator[Piece]:
        while line := response.readline():
            event = json.loads(line.removeprefix(b"data: ")) if line.strip() else {}
            if event.get("type") == "speech.audio.delta":
                yield time.perf_counter(), base64.b64decode(event["audio"])


class ElevenLabsDoor:
    """`stream-input`, with `pcm_24000`: the text in one message, and the one that ends it after that."""

    def __init__(self, address: str) -> None:
        self._address = address

    def speak(self, text: str, *, voice: str, **parameters: ParameterValue) -> Iterator[AudioChunk]:
        query = urlencode({"output_format": f"pcm_{RATE_HZ}", **parameters})
        url = f"ws://{self._address}/v1/text-to-speech/{voice}/stream-input?{query}"
        with _told(), connect(url, compression=None) as line:
            asked_s = self._write(line, text)
            yield from chunks(asked_s, self._pieces(line), Pcm())

    def _write(self, line: Any, text: str) -> float:  # noqa: ANN401
        """Sends it all; from when on speech is waited for."""
        asked_s = time.perf_counter()
        _say(line, text)
        _say(line, "")
        return asked_s

    def _pieces(self, line: Any) -> Iterator[Piece]:  # noqa: ANN401
        while not (message := json.loads(line.recv(_LIMIT_S))).get("isFinal"):
            if "error" in message:
                raise StreamBroken(str(message["error"]))
            arrived_s = time.perf_counter()
            if message.get("audio"):
                yield arrived_s, base64.b64decode(message["audio"])


class ElevenLabsWriting(ElevenLabsDoor):
    """The same, word by word; the clock starts with the last letter, the end is told when speech comes."""

    def _write(self, line: Any, text: str) -> float:  # noqa: ANN401
        *words, last = text.split(" ")
        for word in words:
            _say(line, f"{word} ")
            time.sleep(WORD_S)
        asked_s = time.perf_counter()
        _say(line, f"{last} ")
        return asked_s

    def _pieces(self, line: Any) -> Iterator[Piece]:  # noqa: ANN401
        is_ended = False
        for piece in super()._pieces(line):
            if not is_ended:
                _say(line, "")
                is_ended = True
            yield piece


class OneClause:
    """Speaks texts without the marks at which they could be cut before their end.

    Args:
        door: that takes them.
    """

    def __init__(self, door: Speaker) -> None:
        self._door = door

    def speak(self, text: str, **more: Any) -> Iterable[AudioChunk]:  # noqa: ANN401
        return self._door.speak(_INNER_MARK.sub("", text), **more)


class RivaDoor:
    """`SynthesizeOnline` with LINEAR_PCM, over one channel.

    Args:
        address: `host:port`.
    """

    def __init__(self, address: str) -> None:
        self._channel = grpc.insecure_channel(address)
        self._stub = riva_tts_pb2_grpc.RivaSpeechSynthesisStub(self._channel)

    def __enter__(self) -> RivaDoor:
        grpc.channel_ready_future(self._channel).result(_LIMIT_S)
        return self

    def __exit__(self, *error: object) -> None:
        self._channel.close()

    def speak(self, text: str, *, voice: str, **parameters: ParameterValue) -> Iterator[AudioChunk]:
        request = riva_tts_pb2.SynthesizeSpeechRequest(
            text=text, voice_name=voice, encoding=AudioEncoding.LINEAR_PCM, sample_rate_hz=RATE_HZ
        )
        # The field is newer than this version of Riva's client, which passes on what it does not know.
        request.MergeFromString(b"".join(_custom(name, value) for name, value in parameters.items()))
        with _told():
            asked_s = time.perf_counter()
            responses = self._stub.SynthesizeOnline(request, timeout=_LIMIT_S)
            pieces = ((time.perf_counter(), response.audio) for response in responses)
            yield from chunks(asked_s, pieces, Pcm())


def chunks(asked_s: float, pieces: Iterable[Piece], decoder: Decoder) -> Iterator[AudioChunk]:
    """What has samples, as the client would give it back."""
    index = 0
    for arrived_s, data in pieces:
        if len(audio := decoder.decode(data)):
            yield AudioChunk(audio, index, RATE_HZ, False, UNTOLD, arrived_s - asked_s)
            index += 1


def _say(line: Any, text: str) -> None:  # noqa: ANN401
    line.send(json.dumps({"text": text}))


def _custom(name: str, value: ParameterValue) -> bytes:
    """An entry of `custom_configuration`, field 8, whose key is field 1 and its value field 2."""
    texts = (name.encode(), str(value).encode())
    entry = b"".join(bytes((tag, len(text))) + text for tag, text in zip((0x0A, 0x12), texts, strict=True))
    return bytes((0x42, len(entry))) + entry


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """A failure of any kind is one of the client's, which a load counts."""
    try:
        yield
    except grpc.RpcError as error:
        raise StreamBroken(f"{error.code().name}: {error.details()}") from error
    except (OSError, http.client.HTTPException, WebSocketException) as error:
        raise StreamBroken(repr(error)) from error
