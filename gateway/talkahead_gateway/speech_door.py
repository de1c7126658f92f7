"""`POST /v1/audio/speech`: bytes leave as chunks arrive, and a client that goes takes its stream along."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass

from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope, Send
from talkahead_client import SpeechError

from talkahead_gateway.api_keys import ApiKeys, authorization
from talkahead_gateway.encoding import AsyncEncoder
from talkahead_gateway.open_streams import OpenStreams
from talkahead_gateway.refusal import Refusal
from talkahead_gateway.servers import Servers, Utterance
from talkahead_gateway.speech_request import SpeechRequest, read_speech_request

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class SpeechLimits:
    """What a client may take of the door."""

    body_bytes: int = 1 << 20
    """Of a request. The longest text is 20,000 characters, of at most 12 bytes each in JSON."""
    request_s: float = 30.0
    """From a request's head to the end of its body."""
    reader_s: float = 30.0
    """For a client to take what was sent to it. Speech that nobody takes gathers in memory, and keeps a slot
    of the server."""


class SpeechDoor:
    """An ASGI application. Up to the first chunk a failure is a Refusal, raised; after it, the response is
    left incomplete, so that the server cuts the connection and the client knows.
    """

    def __init__(self, servers: Servers, streams: OpenStreams, keys: ApiKeys, limits: SpeechLimits) -> None:
        self._servers = servers
        self._streams = streams
        self._keys = keys
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        with suppress(ClientDisconnect), self._streams.one():
            asked = read_speech_request(await self._body(request))
            caller = self._keys.caller_of(authorization(request.headers))
            with self._keys.stream(caller):
                await _unless_left(self._speak(asked, send), receive)

    async def _body(self, request: Request) -> bytes:
        try:
            async with asyncio.timeout(self._limits.request_s):
                return await _read_body(request, self._limits.body_bytes)
        except TimeoutError:
            raise Refusal(408, f"the body had not come after {self._limits.request_s:g} s") from None

    async def _speak(self, asked: SpeechRequest, send: Send) -> None:
        encoder = AsyncEncoder(asked.audio_format, asked.rate_hz)
        async with await self._servers.speak(asked.text, asked.voice, asked.parameters) as utterance:
            try:
                await self._send(asked, encoder, utterance, send)
            except (SpeechError, TimeoutError) as error:
                _LOG.warning("a response was cut off: %s", error or "its client takes nothing any more")
            except Exception:
                # Nobody above could still answer, and uvicorn's own log is off.
                _LOG.exception("a response was cut off by a failure of the gateway")

    async def _send(
        self, asked: SpeechRequest, encoder: AsyncEncoder, utterance: Utterance, send: Send
    ) -> None:
        media_type = asked.framing.media_type(asked.audio_format.media_type)
        headers = [(b"content-type", media_type.encode()), (b"cache-control", b"no-store")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        async for chunk in utterance:
            encoded = await encoder.encode(chunk)
            if chunk.is_last:
                encoded += await encoder.finish()
            framed = asked.framing.piece(encoded, chunk) if encoded else b""
            if chunk.is_last:
                framed += asked.framing.end(len(asked.text), chunk.stats)
            await self._send_body(framed, send)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_body(self, body: bytes, send: Send) -> None:
        async with asyncio.timeout(self._limits.reader_s):
            await send({"type": "http.response.body", "body": body, "more_body": True})


async def _read_body(request: Request, limit_bytes: int) -> bytes:
    """Of a longer one nothing is kept; it is heard out, as few clients listen before they have said all."""
    body = bytearray()
    num_bytes = 0
    async for part in request.stream():
        num_bytes += len(part)
        if num_bytes <= limit_bytes:
            body += part
    if num_bytes > limit_bytes:
        raise Refusal(413, f"body: {num_bytes} bytes are not accepted; allowed: up to {limit_bytes} bytes")
    return bytes(body)


async def _unless_left(speaking: Coroutine[None, None, None], receive: Receive) -> None:
    """Speaks, until that is done or the client has gone."""
    tasks = (asyncio.ensure_future(speaking), asyncio.ensure_future(_left(receive)))
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    if not tasks[0].cancelled():
        tasks[0].result()


async def _left(receive: Receive) -> None:
    """Returns when the client has gone, or has all that it asked for."""
    while (await receive())["type"] != "http.disconnect":
        pass
