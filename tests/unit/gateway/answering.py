"""A door that answers on loopback, for tests in its own event loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

import httpx2
from talkahead_gateway.door import Door, DoorOptions
from talkahead_gateway.grpc_server import grpc_server
from talkahead_gateway.http_server import HttpServer


@dataclass(frozen=True)
class Answering:
    """The door, and a client that speaks to it."""

    http: httpx2.AsyncClient
    server: HttpServer
    port: int
    riva: str
    """Where the gRPC door listens."""
    running: asyncio.Task[None]


Open = Callable[..., AbstractAsyncContextManager[Answering]]
"""A context manager: the door before the fake server, or before others; with `DoorOptions`' options."""


@asynccontextmanager
async def answering(options: DoorOptions, drain_timeout_s: float) -> AsyncIterator[Answering]:
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    door = Door(options)
    server = HttpServer(door.app, door.streams, drain_timeout_s, options.limits.body_bytes)
    async with grpc_server(door.riva.handlers(), "127.0.0.1", 0, options.limits.body_bytes) as riva:
        running = asyncio.create_task(server.answer(listener))
        # The socket listens already, so that a request waits until it is answered.
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=10.0) as http:
            yield Answering(http, server, port, riva, running)
        server.stop()
        await running


async def metric(door: Answering, line: str) -> float:
    page = (await door.http.get("/metrics")).text
    [value] = [found.removeprefix(line) for found in page.splitlines() if found.startswith(line + " ")]
    return float(value)
