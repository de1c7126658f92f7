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

from talkahead_gateway.api_keys import authorization
from talkahead_gateway.encoding import AsyncEncoder
from talkahead_gateway.house import House, Stage
from talkahead_gateway.request_body import BodyLimit, read_body
from talkahead_gateway.servers import Utterance
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

    def __init__(self, house: House, limits: SpeechLimits) -> None:
        self._house = house
        self._reader_s = limits.reader_s
        self._body = BodyLimit(limits.body_bytes, limits.request_s)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        with suppress(ClientDisconnect), self._house.streams.one():
            asked = read_speech_request(await read_body(request, self._body))
            stage = self._house.stage(authorization(request.headers))
            with self._house.keys.stream(stage.caller):
                await _unless_left(self._speak(asked, stage, send), receive)

    async def _speak(self, asked: SpeechRequest, stage: Stage, send: Send) -> None:
        encoder = AsyncEncoder(asked.audio_format, asked.rate_hz)
        async with await stage.speak(asked.text, asked.voice, asked.parameters) as utterance:
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
        async with asyncio.timeout(self._reader_s):
            await send({"type": "http.response.body", "body": body, "more_body": True})


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
