from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from fake_triton import FakeTriton, Listen
from talkahead_client import AsyncClient, AudioChunk, Client


@pytest.fixture
def triton() -> Iterator[FakeTriton]:
    server = FakeTriton()
    yield server
    server.close()


@pytest.fixture(params=["threads", "asyncio"])
def listen(request: pytest.FixtureRequest, triton: FakeTriton) -> Listen:
    """Speaks a text with either client and returns its chunks, or raises; then closes the client."""
    return _listen_async(triton.address) if request.param == "asyncio" else _listen(triton.address)


def _listen(address: str) -> Listen:
    def listen(text: str, **options: Any) -> list[AudioChunk]:  # noqa: ANN401
        with Client(address) as client:
            return list(client.speak(text, **options))

    return listen


def _listen_async(address: str) -> Listen:
    async def listen(text: str, **options: Any) -> list[AudioChunk]:  # noqa: ANN401
        async with AsyncClient(address) as client:
            return [chunk async for chunk in client.speak(text, **options)]

    return lambda text, **options: asyncio.run(listen(text, **options))
