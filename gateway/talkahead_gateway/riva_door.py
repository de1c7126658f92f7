"""NVIDIA Riva's speech synthesis: audio leaves as chunks arrive, and a call that ends ends its stream."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio
from talkahead_client import SpeechError

from talkahead_gateway.api_keys import authorization
from talkahead_gateway.encoding import RATE_HZ, AsyncEncoder
from talkahead_gateway.house import House, Stage
from talkahead_gateway.meter import Answer, Meter
from talkahead_gateway.playback import Playback, after_silence
from talkahead_gateway.refusal import Refusal
from talkahead_gateway.riva_messages import (
    SERVICE,
    RivaSynthesisConfigRequest,
    RivaSynthesisConfigResponse,
    SynthesizeSpeechResponse,
    read_message,
)
from talkahead_gateway.riva_request import MODEL, RivaRequest, read_riva_request
from talkahead_gateway.speech_door import SpeechLimits
from talkahead_gateway.word_times import TimedWord, WordTimes

_LOG = logging.getLogger(__name__)

_STATUSES = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    408: grpc.StatusCode.DEADLINE_EXCEEDED,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    503: grpc.StatusCode.UNAVAILABLE,
    504: grpc.StatusCode.DEADLINE_EXCEEDED,
}
"""By a refusal's; all else is INTERNAL."""
_FIELDS = {"input": "text", "voice": "voice_name"}
"""Riva's names of what has OpenAI's in a refusal."""

Context = Any
"""A `grpc.aio.ServicerContext`, for which gRPC has no types."""


@dataclass(frozen=True)
class _Said:
    """What of a request's speech leaves together."""

    audio: bytes
    words: tuple[TimedWord, ...]
    """Those that are known to be over since the last one; none where they were not asked for."""
    request_id: str

    def message(self) -> Any:  # noqa: ANN401
        answered = SynthesizeSpeechResponse(audio=self.audio)
        if self.request_id:
            answered.id.value = self.request_id
        for word in self.words:
            answered.meta.words.add(word=word.text, start_time=_ms(word.start_s), end_time=_ms(word.end_s))
        return answered


Send = Callable[[_Said], Awaitable[None]]
"""Returns once it is on its way."""


class RivaDoor:
    """The service's three methods. A failure is a status, whether speech has begun or not.

    Args:
        house: where it is spoken. What there is to ask for is told to all: Pipecat and LiveKit ask without a
            key.
        meter: counts calls.
        limits: of a client; it has `request_s` for each of its requests, while none is being spoken.
        language: that the servers speak, as Riva writes it: `en-US`.
    """

    def __init__(
        self,
        house: House,
        meter: Meter,
        limits: SpeechLimits,
        language: str,
    ) -> None:
        self._house = house
        self._meter = meter
        self._limits = limits
        self._language = language

    def handlers(self) -> grpc.GenericRpcHandler:
        """For a `grpc.aio` server. Requests are read by the methods, which answer what cannot be read."""
        answering = SynthesizeSpeechResponse.SerializeToString
        methods = {
            "Synthesize": grpc.unary_unary_rpc_method_handler(
                self._synthesize, response_serializer=answering
            ),
            # Riva's older clients send one request, which is the same on the wire as a stream of one.
            "SynthesizeOnline": grpc.stream_stream_rpc_method_handler(
                self._synthesize_online, response_serializer=answering
            ),
            "GetRivaSynthesisConfig": grpc.unary_unary_rpc_method_handler(
                self._configuration, response_serializer=RivaSynthesisConfigResponse.SerializeToString
            ),
        }
        return grpc.method_handlers_generic_handler(SERVICE, methods)

    async def _synthesize(self, sent: bytes, context: Context) -> Any:  # noqa: ANN401
        async with self._answering("Synthesize", context) as answer:
            pieces: list[_Said] = []

            async def keep(piece: _Said) -> None:
                pieces.append(piece)

            await self._speak(_only(sent), keep, context)
            answer.note_byte()
            return _joined(pieces).message()

    async def _synthesize_online(self, sent: AsyncIterator[bytes], context: Context) -> None:
        async with self._answering("SynthesizeOnline", context) as answer:

            async def send(piece: _Said) -> None:
                writing = context.write(piece.message())
                await _in_time(writing, self._limits.reader_s, "takes nothing")
                answer.note_byte()

            await self._speak(self._read(context), send, context)

    async def _configuration(self, sent: bytes, context: Context) -> Any:  # noqa: ANN401
        async with self._answering("GetRivaSynthesisConfig", context):
            self._house.streams.check()
            name = read_message(RivaSynthesisConfigRequest, sent).model_name
            if name not in ("", MODEL):
                raise Refusal.of_field("model_name", name, MODEL)
            voices = await self._house.servers.voices()
            told = {
                "language_code": self._language,
                "voice_name": MODEL,
                "subvoices": ",".join(f"{name}:{number}" for number, name in enumerate(voices)),
                "sample_rate": str(RATE_HZ),
            }
            parameters = [{"key": name, "value": value} for name, value in told.items()]
            return RivaSynthesisConfigResponse(model_config=[{"model_name": MODEL, "parameters": parameters}])

    async def _speak(self, requests: AsyncIterator[bytes], send: Send, context: Context) -> None:
        stage = self._house.stage(authorization(dict(context.invocation_metadata())))
        with stage.stream():
            speech: _Speech | None = None
            async for sent in requests:
                asked = read_riva_request(sent, self._language)
                if speech is None:
                    speech = _Speech(stage, asked, send)
                await speech.say(asked)
            if speech is None:
                raise Refusal(400, "the call ended without a request")
            await speech.finish()

    async def _read(self, context: Context) -> AsyncIterator[bytes]:
        while True:
            sent = await _in_time(context.read(), self._limits.request_s, "sends nothing")
            if sent is grpc.aio.EOF:
                return
            yield sent

    @asynccontextmanager
    async def _answering(self, method: str, context: Context) -> AsyncIterator[Answer]:
        """Counts a call before its end is told, and turns what goes wrong in it into its status."""
        answer = Answer()
        refusal: Refusal | None = None
        try:
            yield answer
            answer.is_complete = True
            answer.status = grpc.StatusCode.OK.name
        except asyncio.CancelledError:
            answer.status = grpc.StatusCode.CANCELLED.name
            raise
        except Exception as error:
            refusal = _refusal(error)
            status = _STATUSES.get(refusal.status, grpc.StatusCode.INTERNAL)
            answer.status = status.name
        finally:
            self._meter.count(f"/{SERVICE}/{method}", answer)
        if refusal is not None:
            await context.abort(status, refusal.sentence(_FIELDS), tuple(_trailing_metadata(refusal)))


class _Speech:
    """What one call says: its requests one after the other, encoded as one piece of audio.

    Args:
        stage: where it is spoken.
        first: the first request, whose form all of them have.
        send: takes what is encoded.
    """

    def __init__(self, stage: Stage, first: RivaRequest, send: Send) -> None:
        self._stage = stage
        self._last = first
        self._send = send
        self._encoder = AsyncEncoder(first.audio_format, first.rate_hz)
        self._playback = Playback()

    async def say(self, asked: RivaRequest) -> None:
        """Returns when all but what a codec keeps back is on its way."""
        if (asked.audio_format, asked.rate_hz) != (self._last.audio_format, self._last.rate_hz):
            raise Refusal(400, "encoding, sample_rate_hz: one call has the same for all of its requests")
        self._last = asked
        async with await self._stage.speak(asked.text, asked.voice, asked.parameters) as utterance:
            # Its first chunk has come.
            silence_s = self._playback.silence_s()
            times = WordTimes(asked.text, self._playback.sent_s + silence_s)
            async for chunk in utterance:
                heard = chunk if chunk.index else after_silence(chunk, silence_s)
                ended = tuple(times.add(chunk)) if asked.wants_word_times else ()
                self._playback.play(heard.duration_s)
                await self._send_more(await self._encoder.encode(heard), ended)
        self._playback.pause_after(asked.text)

    async def finish(self) -> None:
        await self._send_more(await self._encoder.finish())

    async def _send_more(self, audio: bytes, words: tuple[TimedWord, ...] = ()) -> None:
        """What a codec keeps back is no message."""
        if audio or words:
            await self._send(_Said(audio, words, self._last.id))


async def _only(sent: bytes) -> AsyncIterator[bytes]:
    yield sent


async def _in_time(action: Awaitable[Any], limit_s: float, otherwise: str) -> Any:  # noqa: ANN401
    try:
        async with asyncio.timeout(limit_s):
            return await action
    except TimeoutError:
        raise Refusal(408, f"the client {otherwise} for {limit_s:g} s") from None


def _joined(pieces: Sequence[_Said]) -> _Said:
    """Of one request; at least one."""
    words = tuple(word for piece in pieces for word in piece.words)
    return _Said(b"".join(piece.audio for piece in pieces), words, pieces[-1].request_id)


def _ms(moment_s: float) -> int:
    return round(1e3 * moment_s)


def _refusal(error: Exception) -> Refusal:
    if isinstance(error, Refusal):
        return error
    if isinstance(error, SpeechError):
        return Refusal.of_error(error)
    _LOG.error("a call was cut off by a failure of the gateway", exc_info=error)
    return Refusal.of_own_failure()


def _trailing_metadata(refusal: Refusal) -> Iterator[tuple[str, str]]:
    if refusal.retry_after_s is not None:
        yield "retry-after-ms", str(math.ceil(1e3 * refusal.retry_after_s))
