"""uvicorn around the door, with an end that lets open streams finish."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Sequence
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from talkahead_gateway.open_streams import OpenStreams

_LOG = logging.getLogger(__name__)

_FAREWELL_S = 1
"""For what is no stream, and for streams that were cut, once the door has drained."""


class HttpServer(uvicorn.Server):
    """Answers on a socket until a signal, drains, and ends.

    Unlike uvicorn's own shutdown, which stops listening at once, a draining door still answers: with 503.

    Args:
        app: what answers.
        streams: what is to be drained.
        drain_timeout_s: how long that may take.
        message_bytes: of a message over a WebSocket at most.
        beside: what answers beside HTTP, for the ready line.
    """

    def __init__(
        self,
        app: ASGIApp,
        streams: OpenStreams,
        drain_timeout_s: float,
        message_bytes: int,
        beside: Sequence[str] = (),
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                lifespan="on",
                access_log=False,
                # Failures and cut responses are told by the door itself, in sentences.
                log_config=None,
                log_level=logging.CRITICAL,
                server_header=False,
                ws="websockets-sansio",
                ws_max_size=message_bytes,
                # Speech in base64 becomes little shorter, and the event loop would do it.
                ws_per_message_deflate=False,
                timeout_graceful_shutdown=_FAREWELL_S,
            )
        )
        self._streams = streams
        self._beside = beside
        self._drain_timeout_s = drain_timeout_s
        self._draining: asyncio.Task[None] | None = None

    async def answer(self, listener: socket.socket) -> None:
        """On a socket that listens already; prints the ready line."""
        self._loop = asyncio.get_running_loop()
        await self.serve([listener])

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or ():
            host, port = listener.getsockname()[:2]
            print(" ".join(("ready http", shown_address(host, port), *self._beside)), flush=True)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """On a signal, in the main thread, at any moment."""
        self._loop.call_soon_threadsafe(self.stop)

    def stop(self) -> None:
        """Drains and ends; called once more, ends now."""
        if self._draining is None:
            self._draining = self._loop.create_task(self._drain(), name="drain")
        else:
            self.should_exit = True

    async def _drain(self) -> None:
        _LOG.info("draining: %s", _streams(len(self._streams)))
        left = await self._streams.drain(self._drain_timeout_s)
        if left:
            _LOG.warning("cut off after %g s: %s", self._drain_timeout_s, _streams(left))
        self.should_exit = True


def shown_address(host: str, port: int) -> str:
    return f"{f'[{host}]' if ':' in host else host}:{port}"


def _streams(count: int) -> str:
    return f"{count} open stream{'' if count == 1 else 's'}"
